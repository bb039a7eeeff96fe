// SPDX-License-Identifier: Apache-2.0

#include "simulation/fiber.h"

#include <asm/prctl.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "simulation/scheduler.h"

// void penstock_simulated_switch(void** left, void* next): keeps on the stack what a function must keep, and goes on
// where another stack was left.
asm(R"(
.text
.type penstock_simulated_switch, @function
penstock_simulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size penstock_simulated_switch, . - penstock_simulated_switch
.type penstock_simulated_begin, @function
penstock_simulated_begin:
  xorl %ebp, %ebp
  movq %r13, %rdi
  call *%r12
  ud2
.size penstock_simulated_begin, . - penstock_simulated_begin
)");
extern "C" void penstock_simulated_switch(void** left, void* next);
extern "C" void penstock_simulated_begin();

namespace penstock::simulation {
namespace {

enum State : std::uint32_t { kNew, kAsleep, kOver };
constexpr std::uintptr_t kRoomOfSleep = 16 << 10;  // Of a fiber's stack, for the thread that sleeps there.
constexpr unsigned long kMaySetBase = 2;           // AT_HWCAP2: programs may use wrfsbase.

// Found before there is a second thread.
decltype(&::syscall) really_call = nullptr;
decltype(&::pthread_create) really_create = nullptr;
decltype(&::pthread_join) really_join = nullptr;
bool may_set_base = false;

long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value) {
  return really_call(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

std::uintptr_t own_values() {
  std::uintptr_t base = 0;
  asm volatile("movq %%fs:0, %0" : "=r"(base));  // By the ABI it holds its own address.
  return base;
}

void set_values(std::uintptr_t base) {
  if (may_set_base) asm volatile("wrfsbase %0" : : "r"(base) : "memory");
  else if (really_call(SYS_arch_prctl, ARCH_SET_FS, base) != 0) std::abort();
}

}  // namespace

void Fiber::begin() {
  really_call = REAL(syscall);
  really_create = REAL(pthread_create);
  really_join = REAL(pthread_join);
  may_set_base = (::getauxval(AT_HWCAP2) & kMaySetBase) != 0;
}

void Fiber::adopt() { values_ = own_values(); }

// The fiber's frames lie under those of the thread, which sleeps.
void* Fiber::sleep(void* argument) {
  Fiber& fiber = *static_cast<Fiber*>(argument);
  fiber.values_ = own_values();
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  auto* top = reinterpret_cast<void**>((here - kRoomOfSleep) & ~std::uintptr_t{15});
  top -= 2;
  *--top = reinterpret_cast<void*>(penstock_simulated_begin);
  *--top = nullptr;                               // rbp
  *--top = nullptr;                               // rbx
  *--top = reinterpret_cast<void*>(fiber.body_);  // r12
  *--top = fiber.argument_;                       // r13
  *--top = nullptr;                               // r14
  *--top = nullptr;                               // r15
  fiber.stack_ = top;
  fiber.state_ = kAsleep;
  futex(&fiber.state_, FUTEX_WAKE, 1);
  while (fiber.state_ == kAsleep) futex(&fiber.state_, FUTEX_WAIT, kAsleep);
  return nullptr;
}

int Fiber::make(const pthread_attr_t* attributes, void (*body)(void*), void* argument) {
  body_ = body;
  argument_ = argument;
  if (const int error = really_create(&thread_, attributes, sleep, this); error != 0) return error;
  while (state_ == kNew) futex(&state_, FUTEX_WAIT, kNew);
  return 0;
}

void Fiber::go_to(Fiber& next) {
  set_values(next.values_);
  penstock_simulated_switch(&stack_, next.stack_);
}

void Fiber::end() {
  state_ = kOver;
  futex(&state_, FUTEX_WAKE, 1);
  really_join(thread_, nullptr);
}

}  // namespace penstock::simulation
