// SPDX-License-Identifier: Apache-2.0

// What a test may ask of the library in fake_vendor.cc: its symbol fake_vendor_seen.
#pragma once

struct FakeVendorSeen {
  int opens = 0;
  int closes = 0;
  int files = 0;          // Registered now.
  int registrations = 0;  // Ever.
  int reads = 0;
  int writes = 0;
  int closed_first = 0;  // Files whose descriptor was closed before they were deregistered.
  int version = 0;       // As its own call of cuFileGetVersion was answered, by whichever library that reached.
};
