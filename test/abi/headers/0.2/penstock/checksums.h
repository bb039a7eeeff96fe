/* Checksums of memory, of the host's or a device's, for programs that keep them beside their bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_CHECKSUMS_H_
#define PENSTOCK_CHECKSUMS_H_

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CRC32C (RFC 3720, appendix B.4) of each `piece_bytes` of memory, the last of what is left; `sums` has room for all.
 * A device makes those of its memory, where it can. No stream is waited for: what writes the memory is to be over. Fail
 * with PENSTOCK_BAD_POINTER where memory is named that cannot be read, or written where the sums go. */
penstock_status penstock_crc32c(penstock_session* session, const void* memory, uint64_t size, uint64_t piece_bytes,
                                uint32_t* sums);
/* The same of pieces wherever they lie: sums[i] is that of pieces[i]. A device looks at all of its pieces together. */
penstock_status penstock_crc32c_vector(penstock_session* session, const struct iovec* pieces, uint32_t count,
                                       uint32_t* sums);
/* Of two pieces of memory together: `second` is the checksum of the second_bytes behind the first. */
uint32_t penstock_crc32c_combine(uint32_t first, uint32_t second, uint64_t second_bytes);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_CHECKSUMS_H_ */
