// SPDX-License-Identifier: Apache-2.0

// Makes system calls of this process fail, if it runs under penstock_refuse_calls, which sees three marks: calls of
// close() with numbers that no descriptor has. Its other arguments and its result are not close's.
#pragma once

namespace penstock::failures {

// Arguments: number, error, and of the bits whether more fail, and whether no call for memory does. Result: 0.
inline constexpr int kBeginMark = -0x50454e;
inline constexpr unsigned kMore = 1, kSparesMemory = 2;
inline constexpr int kEndMark = -0x50454f;    // Result: of the call that failed, its number * 16 + its errors; or 0.
inline constexpr int kCountMark = -0x504550;  // Result: how many calls could have failed before the last end.

// Fails system call `number` of those that follow and can fail, counted from 0, with that error of those it can give,
// counted on from the first when there are no more. With `more`, an error that passes comes 16 times, another one ends
// all calls behind it. False if nobody sees the mark.
bool refuse_call(long number, unsigned error, bool more);

struct RefusedCall {
  long call = -1;  // SYS_openat and so on; negative if so many calls were not made.
  unsigned errors = 1;
};
RefusedCall end_of_refused_calls();

}  // namespace penstock::failures
