/* Checksums of host or device memory, for programs that store them with their data.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_CHECKSUMS_H_
#define PENSTOCK_CHECKSUMS_H_

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the CRC32C (RFC 3720, appendix B.4) of each `piece_bytes` of memory; the last piece may be shorter, and
 * `sums` has room for all. A device computes the checksums of its own memory where it can. The call waits for no
 * stream: all writes to the memory must have ended. Fails with PENSTOCK_BAD_POINTER where the memory cannot be read, or
 * `sums` cannot be written. */
penstock_status penstock_crc32c(penstock_session* session, const void* memory, uint64_t size, uint64_t piece_bytes,
                                uint32_t* sums);
/* The same for separate pieces of memory: sums[i] is the checksum of pieces[i]. A device processes all of its pieces in
 * one launch. */
penstock_status penstock_crc32c_vector(penstock_session* session, const struct iovec* pieces, uint32_t count,
                                       uint32_t* sums);
/* [experimental] Checksums that are made in the order of a stream. */
typedef struct penstock_checksums penstock_checksums;
/* [experimental] The same in the order of a CUDA stream (NULL: the default stream), after all its earlier work, and
 * without waiting for it: later work of the stream may change the memory. Checksums of host memory are made at once.
 * Waits for the stream where a device cannot make checksums. Fails while the stream is being captured. */
penstock_status penstock_crc32c_begin(penstock_session* session, const struct iovec* pieces, uint32_t count,
                                      void* stream, penstock_checksums** checksums);
/* [experimental] Waits until the stream has passed them, writes the `count` checksums (NULL: none), and frees
 * `checksums`, also on failure. Call it once, before the session is closed. */
penstock_status penstock_crc32c_end(penstock_checksums* checksums, uint32_t* sums);
/* [experimental] As penstock_crc32c_begin(), with a second checksum of 64 bits of each piece, to tell whether bytes are
 * those of before without reading them: docs/reference/checkpoint-format.md says how it is made. */
penstock_status penstock_fingerprints_begin(penstock_session* session, const struct iovec* pieces, uint32_t count,
                                            void* stream, penstock_checksums** checksums);
/* [experimental] As penstock_crc32c_end(), with `count` hashes (NULL: none); only for what
 * penstock_fingerprints_begin() began are hashes written. */
penstock_status penstock_fingerprints_end(penstock_checksums* checksums, uint32_t* sums, uint64_t* hashes);
/* Returns the checksum of two adjacent pieces: `second` is the checksum of the second_bytes that follow the first
 * piece. */
uint32_t penstock_crc32c_combine(uint32_t first, uint32_t second, uint64_t second_bytes);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_CHECKSUMS_H_ */
