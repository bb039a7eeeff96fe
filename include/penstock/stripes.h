/* Striped objects: one object in a file on each of several drives, stripe after stripe, without md or LVM. A manifest,
 * a small file (docs/reference/stripe-format.md), says which files these are.
 *
 * An object is a penstock_file. penstock_transfer() and threaded queues move a range of it to or from all members at
 * once, and the report sums the bytes by path. penstock_file_get(), _advise(), _sync() and _close() work as for any
 * file. Streams, polled queues and dry runs refuse a striped object (PENSTOCK_UNSUPPORTED), but accept its members.
 *
 * [experimental] All of this header; penstock.h says what that means.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_STRIPES_H_
#define PENSTOCK_STRIPES_H_

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct penstock_stripe_options {
  uint32_t struct_size;
  uint32_t folder_count;      /* 1 to 32 */
  const char* const* folders; /* the folders of the members, usually each on a different drive */
  uint64_t size;              /* the object's size, which is fixed */
  uint64_t stripe_bytes;      /* a multiple of 65536, up to 1 GiB */
  uint32_t mode;              /* as for open(2), less the umask */
  uint32_t flags;             /* of penstock_create_flag */
} penstock_stripe_options;

typedef struct penstock_stripe_info {
  uint32_t struct_size;
  uint32_t member_count;
  uint64_t size;
  uint64_t stripe_bytes;
  const char* object; /* its number, 32 hexadecimal digits; lives as long as the handle */
} penstock_stripe_info;

/* Opens the object of a manifest for reading. Fails with PENSTOCK_BAD_STRIPE where the manifest is torn, or a member is
 * missing, truncated or from another object; the message names it. flags: 0. */
penstock_status penstock_stripe_open(penstock_session* session, const char* manifest, uint32_t flags,
                                     penstock_file** file);
/* Creates an object for writing, with room for all of its bytes. As with penstock_file_create(), it appears when
 * penstock_file_publish() is called: the manifest gets its name last, in one step. This also removes the members of an
 * object that it replaces. */
penstock_status penstock_stripe_create(penstock_session* session, const char* manifest,
                                       const penstock_stripe_options* options, penstock_file** file);
penstock_status penstock_stripe_get(penstock_file* file, penstock_stripe_info* info);
/* Returns a member by its number, from 0 on: a file, whose name and handle live as long as the object's handle. Do not
 * close it. name and member may be NULL. */
penstock_status penstock_stripe_member(penstock_file* file, uint32_t number, const char** name, penstock_file** member);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PENSTOCK_STRIPES_H_ */
