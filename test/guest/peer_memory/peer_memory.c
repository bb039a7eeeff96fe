// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Offers the memory behind BAR 2 of an ivshmem device as p2pmem, for tests in emulated machines: a drive's DMA engine
 * reaches it, and the host sees it in a file. */
#include <linux/module.h>
#include <linux/pci-p2pdma.h>
#include <linux/pci.h>

enum { kBar = 2 };

static int offer(struct pci_dev* device, const struct pci_device_id* id) {
  int error = pcim_enable_device(device);

  if (error) return error;
  pci_set_master(device);
  error = pci_p2pdma_add_resource(device, kBar, 0, 0);
  if (error) return error;
  pci_p2pmem_publish(device, true);
  return 0;
}

static void withdraw(struct pci_dev* device) { pci_p2pmem_publish(device, false); }

static const struct pci_device_id devices[] = {{PCI_DEVICE(0x1af4, 0x1110)}, {}};
MODULE_DEVICE_TABLE(pci, devices);

static struct pci_driver peer_memory = {.name = "peer_memory", .id_table = devices, .probe = offer, .remove = withdraw};
module_pci_driver(peer_memory);

MODULE_DESCRIPTION("Offers an emulated device's memory as p2pmem, for tests");
MODULE_LICENSE("GPL");
