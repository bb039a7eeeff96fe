// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/registration_list.h"

#include <utility>

namespace penstock::core {

RegistrationList::~RegistrationList() {
  while (take_oldest() != nullptr) {
  }
}

void RegistrationList::insert(std::unique_ptr<Registration> one) {
  Registration* older = newest_;
  while (older != nullptr && older->used_at > one->used_at) older = older->older_;
  Registration* const placed = one.release();
  placed->older_ = older;
  placed->newer_ = std::exchange(older == nullptr ? oldest_ : older->newer_, placed);
  (placed->newer_ == nullptr ? newest_ : placed->newer_->older_) = placed;
  ++size_;
}

std::unique_ptr<Registration> RegistrationList::take(Registration& one) {
  (one.older_ == nullptr ? oldest_ : one.older_->newer_) = one.newer_;
  (one.newer_ == nullptr ? newest_ : one.newer_->older_) = one.older_;
  one.older_ = one.newer_ = nullptr;
  --size_;
  return std::unique_ptr<Registration>(&one);
}

void RegistrationList::take_all(RegistrationList& other) {
  while (std::unique_ptr<Registration> one = other.take_oldest()) insert(std::move(one));
}

}  // namespace penstock::core
