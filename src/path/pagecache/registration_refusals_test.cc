// SPDX-License-Identifier: Apache-2.0

// The registration cache where files, drivers or memory do not give what it asks for.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <string>

#include "fakes/fake_gpu.h"
#include "fakes/scripted_pages.h"
#include "fakes/waiting.h"
#include "path/pagecache/registration_cache.h"
#include "path/pagecache/resident_pages.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

using State = Extent::State;
using Wanted = RegistrationCache::Wanted;

constexpr std::uint64_t kExtent = Extent::kBytes;

// A storage that does not tell sizes, or opens no file a second time, from some moment on.
class FailingStorage final : public PosixStorage {
 public:
  FailingStorage() : PosixStorage(false) {}
  Result<std::uint64_t> size(int fd) override {
    return is_lost ? os_failure(EIO, "ask for the size as scripted") : PosixStorage::size(fd);
  }
  Result<FileStamp> stamp(int fd) override {
    return is_lost ? os_failure(EIO, "ask for the stamp as scripted") : PosixStorage::stamp(fd);
  }
  Result<FileFacts> facts(int fd) override {
    Result<FileFacts> facts = PosixStorage::facts(fd);
    if (!facts.ok() || !is_direct) return facts;
    facts->open_flags |= O_DIRECT;
    facts->direct_memory_align = facts->direct_offset_align = 512;
    return facts;
  }
  Result<UniqueFd> reopen(int fd, int flags, bool o_direct) override {
    return is_direct ? os_failure(EACCES, "open the file a second time") : PosixStorage::reopen(fd, flags, o_direct);
  }
  bool is_lost = false, is_direct = false;
};

class RegistrationRefusalTest : public testing::Test {
 protected:
  RegistrationRefusalTest() {
    const std::string content(2 * kExtent, 'c');
    EXPECT_EQ(storage_.write(fd_.get(), content.data(), content.size(), 0).value(), content.size());
    make(1u << 30);
  }
  void make(std::uint64_t bytes_max, const CachedFile::Terms& terms = {}) {
    if (cache_) cache_->forget(*file_);
    cache_.emplace(RegistrationRules{.bytes_max = bytes_max, .cpu_weight = 4});
    cached_ = cache_->find_or_make(*file_, gpu_, terms);
    ASSERT_EQ(cache_->watch().error(), 0);
  }
  State state(std::uint64_t index) const {
    const Extent* const extent = cached_->find(index);
    return extent == nullptr ? State::none : extent->state();
  }

  ScriptedPages pages_;
  FakeGpu gpu_{&pages_};
  FailingStorage storage_;
  UniqueFd fd_{::memfd_create("registration_refusals_test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  std::unique_ptr<File> file_ = std::move(*File::open(storage_, fd_.get()));
  std::optional<RegistrationCache> cache_;
  CachedFile* cached_ = nullptr;
};

// ---- Registering ---------------------------------------------------------------------------------------------------

TEST_F(RegistrationRefusalTest, WhatCannotBeRegisteredCountsForNothingAndIsPutOff) {
  struct Case {
    const char* what;
    std::function<void()> begin, end;
  };
  const auto nothing = [] {};
  const Case cases[] = {
      {"the driver refuses", [&] { pages_.refuses = true; }, [&] { pages_.refuses = false; }},
      {"there is no room", [&] { make(kExtent / 2); }, nothing},
      {"the size is not told", [&] { storage_.is_lost = true; }, [&] { storage_.is_lost = false; }},
      {"the pages are not there",
       [&] { ASSERT_EQ(::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kExtent), 0); }, nothing},
      {"the file ends before it", [&] { ASSERT_EQ(::ftruncate(fd_.get(), 0), 0); }, nothing}};
  for (const auto& [what, begin, end] : cases) {
    make(1u << 30);
    begin();
    cache_->register_now(*cached_, 0);
    end();
    EXPECT_EQ(state(0), State::none) << what;
    EXPECT_EQ(cache_->registered_bytes(), 0u) << what;
    EXPECT_EQ(pages_.registered, 0) << what;
  }
}

TEST_F(RegistrationRefusalTest, AfterARefusalItIsNotWorthItAtOnce) {
  const FileRange read{Op::read, 0, kExtent};
  ASSERT_EQ(cache_->want(*cached_, read, SubmitMode::many), Wanted::all_anew);
  pages_.refuses = true;
  cache_->register_now(*cached_, 0);
  EXPECT_LT(cached_->find(0)->saving(), 0);
  EXPECT_EQ(cache_->want(*cached_, read, SubmitMode::many), Wanted::no);
}

TEST_F(RegistrationRefusalTest, ASealedFileIsRegisteredForReading) {
  make(1u << 30, {.writable = true});
  ASSERT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  cache_->register_now(*cached_, 0);
  ASSERT_EQ(state(0), State::registered);
  EXPECT_FALSE(cached_->find(0)->writable());
}

TEST_F(RegistrationRefusalTest, AnotherThanASealedFileThatCannotBeMappedForWritingIsNot) {
  const UniqueFd reading(::open(("/proc/self/fd/" + std::to_string(fd_.get())).c_str(), O_RDONLY | O_CLOEXEC));
  const std::unique_ptr<File> file = std::move(*File::open(storage_, reading.get()));
  CachedFile* const cached = cache_->find_or_make(*file, gpu_, {.writable = true});
  cache_->register_now(*cached, 0);
  EXPECT_EQ(cached->find(0)->state(), State::none);
  EXPECT_EQ(pages_.registered, 0);
  cache_->forget(*file);
}

TEST_F(RegistrationRefusalTest, WhereNothingCanGoNothingElseIsRegistered) {
  make(kExtent);
  cache_->register_now(*cached_, 0);
  pages_.keeps = true;
  cache_->register_now(*cached_, 1);
  EXPECT_EQ(state(1), State::none);
  pages_.keeps = false;
  cache_->register_now(*cached_, 1);
  EXPECT_EQ(state(1), State::registered) << "in the other's place";
  EXPECT_EQ(state(0), State::none);
  EXPECT_EQ(pages_.registered, 1);
}

TEST_F(RegistrationRefusalTest, WhatIsRegisteredIsNotRegisteredAgain) {
  cache_->register_now(*cached_, 0);
  cache_->register_now(*cached_, 0);
  EXPECT_EQ(pages_.registered, 1);
  cache_->register_now(*cached_, UINT64_MAX / kExtent);
  EXPECT_EQ(pages_.registered, 1) << "no file is as long";
}

TEST_F(RegistrationRefusalTest, AFileThatIsOpenForDirectIoAloneIsNotRegistered) {
  storage_.is_direct = true;
  const std::unique_ptr<File> file = std::move(*File::open(storage_, fd_.get()));
  CachedFile* const cached = cache_->find_or_make(*file, gpu_, {});
  cache_->register_now(*cached, 0);
  EXPECT_EQ(cached->find(0)->state(), State::none);
  EXPECT_EQ(pages_.registered, 0);
  cache_->forget(*file);
}

// Nobody has asked for the watch yet.
TEST_F(RegistrationRefusalTest, UntilPagesCanBeLookedAtNothingIsKnownToBeSettled) {
  const std::unique_ptr<File> file = std::move(*File::open(storage_, fd_.get()));
  RegistrationCache cache(RegistrationRules{.bytes_max = 1u << 30});
  CachedFile* const cached = cache.find_or_make(*file, gpu_, {.settles_after = std::chrono::nanoseconds(1)});
  cache.register_now(*cached, 0);
  EXPECT_EQ(cached->find(0)->state(), State::registered);
  EXPECT_FALSE(cached->find(0)->is_settled());
  ASSERT_EQ(cache.watch().error(), 0);
  cache.register_now(*cached, 1);
  EXPECT_TRUE(cached->find(1)->is_settled());
  cache.forget(*file);
}

// ---- Wanting -------------------------------------------------------------------------------------------------------

TEST_F(RegistrationRefusalTest, ARequestThatIsInPartRegisteredIsNotAllAnew) {
  cache_->register_now(*cached_, 0);
  EXPECT_EQ(cache_->want(*cached_, {Op::read, 0, 2 * kExtent}, SubmitMode::many), Wanted::yes);
}

TEST_F(RegistrationRefusalTest, NothingIsWantedOfNothingOrWhereTheSizeIsNotTold) {
  EXPECT_EQ(cache_->want(*cached_, {Op::read, 0, 0}, SubmitMode::many), Wanted::no);
  storage_.is_lost = true;
  EXPECT_EQ(cache_->want(*cached_, {Op::read, 0, kExtent}, SubmitMode::many), Wanted::no);
  EXPECT_EQ(cache_->want(*cached_, {Op::read, 0, 4096}, SubmitMode::alone), Wanted::no);
  EXPECT_EQ(cached_->find(0), nullptr);
}

TEST_F(RegistrationRefusalTest, AFileIsCachedOnceForADevice) {
  FakeGpu other(&pages_);
  EXPECT_EQ(cache_->find_or_make(*file_, gpu_, {}), cached_);
  CachedFile* const of_other = cache_->find_or_make(*file_, other, {});
  EXPECT_NE(of_other, cached_);
  EXPECT_EQ(cache_->find(*file_, gpu_), cached_);
  EXPECT_EQ(cache_->find(*file_, other), of_other);
  cache_->forget(*file_);
}

TEST_F(RegistrationRefusalTest, WhatWasRefusedIsNotRegisteredAheadOfAnybody) {
  pages_.refuses = true;
  cache_->register_now(*cached_, 1);
  pages_.refuses = false;
  for (const std::uint64_t offset : {0u, 2u << 20}) {
    (void)cache_->want(*cached_, {Op::read, offset, 2u << 20}, SubmitMode::many);
  }
  EXPECT_EQ(state(1), State::none);
}

// ---- Lending -------------------------------------------------------------------------------------------------------

TEST_F(RegistrationRefusalTest, OnlyPagesThatAreTheFilesAreLent) {
  const FileRange range{Op::read, 4096, 4096};
  EXPECT_TRUE(cache_->lend(*cached_, range).empty()) << "no extent";
  (void)cached_->extent(0);
  EXPECT_TRUE(cache_->lend(*cached_, range).empty()) << "not registered";
  cache_->register_now(*cached_, 0);
  const auto lent = cache_->lend(*cached_, range);
  ASSERT_EQ(lent.size(), 4096u);
  EXPECT_EQ(lent[0], std::byte{'c'});
  storage_.is_lost = true;
  EXPECT_TRUE(cache_->lend(*cached_, range).empty()) << "nobody knows";
  storage_.is_lost = false;
  ASSERT_EQ(::ftruncate(fd_.get(), 4096), 0);
  EXPECT_TRUE(cache_->lend(*cached_, range).empty()) << "the file has ended";
}

TEST_F(RegistrationRefusalTest, AnExtentWhosePagesAreGoneIsEvictedByTheCachesThread) {
  cache_->register_now(*cached_, 0);
  ASSERT_EQ(::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192), 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(cache_->lend(*cached_, {Op::read, 0, 4096}).empty());
  EXPECT_TRUE(wait_until([&] { return state(0) == State::none && pages_.registered == 0; }));
}

// ---- Keeping -------------------------------------------------------------------------------------------------------

TEST_F(RegistrationRefusalTest, PagesAreKeptWhileTheyAreTheFilesAndAsLongAsItIs) {
  bool goes_on = true;
  ResidentPages kept([&] { return goes_on; });
  EXPECT_TRUE(kept.add(*cache_, *cached_, kExtent, kExtent));
  EXPECT_EQ(kept.bytes(), kExtent);
  ASSERT_EQ(kept.addresses().size(), 2u);
  EXPECT_EQ(kept.addresses()[0], nullptr);
  EXPECT_EQ(kept.addresses()[1][0], std::byte{'c'});
  goes_on = false;
  EXPECT_TRUE(kept.add(*cache_, *cached_, 0, kExtent)) << "no further one";
  EXPECT_EQ(kept.bytes(), kExtent);
  kept.release();
  EXPECT_EQ(kept.bytes(), 0u);
  EXPECT_TRUE(kept.addresses().empty());
}

TEST_F(RegistrationRefusalTest, PagesThatCannotBeHadAreNotKeptAndOtherPagesAreAskedForOnceMore) {
  ResidentPages kept([] { return true; });
  pages_.refuses = true;
  EXPECT_TRUE(kept.add(*cache_, *cached_, 0, kExtent));
  EXPECT_EQ(kept.bytes(), 0u);
  pages_.refuses = false;
  cache_->register_now(*cached_, 0);
  ASSERT_EQ(state(0), State::registered);
  ASSERT_EQ(::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192), 0);
  EXPECT_FALSE(kept.add(*cache_, *cached_, 0, kExtent)) << "of the pages that are gone";
  EXPECT_EQ(state(0), State::none) << "it is evicted";
  storage_.is_lost = true;
  EXPECT_TRUE(kept.add(*cache_, *cached_, 0, kExtent)) << "nothing is registered";
  EXPECT_EQ(kept.bytes(), 0u);
}

TEST_F(RegistrationRefusalTest, AnExtentThatIsTooShortByNowIsRegisteredAnew) {
  ASSERT_EQ(::ftruncate(fd_.get(), 4096), 0);
  cache_->register_now(*cached_, 0);
  ASSERT_EQ(state(0), State::registered);
  const std::string more(8192, 'm');
  ASSERT_EQ(::pwrite(fd_.get(), more.data(), more.size(), 0), 8192);
  ResidentPages kept([] { return true; });
  EXPECT_FALSE(kept.add(*cache_, *cached_, 0, 8192));
  EXPECT_TRUE(kept.add(*cache_, *cached_, 0, 8192));
  EXPECT_EQ(kept.bytes(), 8192u);
  EXPECT_EQ(kept.addresses()[0][8191], std::byte{'m'});
}

TEST_F(RegistrationRefusalTest, AFileThatCannotBeReadIsNotRegistered) {
  const UniqueFd writing(::open(("/proc/self/fd/" + std::to_string(fd_.get())).c_str(), O_WRONLY | O_CLOEXEC));
  const std::unique_ptr<File> file = std::move(*File::open(storage_, writing.get()));
  CachedFile* const cached = cache_->find_or_make(*file, gpu_, {.only_by_pages = true});
  cache_->register_now(*cached, 0);
  EXPECT_EQ(cached->find(0)->state(), State::none);
  EXPECT_EQ(cache_->registered_bytes(), 0u);
  cache_->forget(*file);
}

}  // namespace
}  // namespace penstock::core
