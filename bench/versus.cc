// Two libcufile.so.0 in one process, measured in turns: ours against NVIDIA's, or any against any.
//
//   versus [--pairs N] [--size MIB] FILE OURS THEIRS
//
// FILE is made where it is missing and brought into the page cache. Each pair runs every case with one library and
// then with the other, in alternating order. Medians of the pairs are printed with their spread, CPU time is that of
// the whole process. What was read is compared with the file once for each library and case, outside the clock.
// Needs a GPU. NVIDIA's library needs a udev record of the disk (docs/performance.md).
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cufile.h"

namespace {

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "versus: %s\n", why.c_str());
  std::exit(1);
}

template <typename Function>
Function symbol(void* library, const char* name) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) give_up(std::string("no symbol ") + name);
  return reinterpret_cast<Function>(found);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double cpu() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double percentile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

// As much of the CUDA driver as is needed: memory, a context, pinned copies for the link's ceiling.
class Cuda {
 public:
  Cuda() {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) give_up("needs a GPU: libcuda.so.1 cannot be loaded");
    int device = 0;
    check(symbol<int (*)(unsigned)>(driver, "cuInit")(0), "cuInit");
    check(symbol<int (*)(int*, int)>(driver, "cuDeviceGet")(&device, 0), "cuDeviceGet");
    check(symbol<int (*)(void**, int)>(driver, "cuDevicePrimaryCtxRetain")(&context_, device), "primary context");
    set_current_ = symbol<int (*)(void*)>(driver, "cuCtxSetCurrent");
    allocate_ = symbol<int (*)(void**, std::size_t)>(driver, "cuMemAlloc_v2");
    fill_ = symbol<int (*)(void*, unsigned char, std::size_t)>(driver, "cuMemsetD8_v2");
    to_host_ = symbol<int (*)(void*, const void*, std::size_t)>(driver, "cuMemcpyDtoH_v2");
    to_device_ = symbol<int (*)(void*, const void*, std::size_t)>(driver, "cuMemcpyHtoD_v2");
    pin_ = symbol<int (*)(void**, std::size_t, unsigned)>(driver, "cuMemHostAlloc");
    synchronize_ = symbol<int (*)()>(driver, "cuCtxSynchronize");
    enter();
  }
  void enter() { check(set_current_(context_), "cuCtxSetCurrent"); }
  char* allocate(std::size_t size) {
    void* memory = nullptr;
    check(allocate_(&memory, size), "cuMemAlloc");
    return static_cast<char*>(memory);
  }
  void fill(char* memory, std::size_t size) {
    check(fill_(memory, 0xee, size), "cuMemsetD8");
    check(synchronize_(), "cuCtxSynchronize");
  }
  void to_host(void* host, const char* memory, std::size_t size) { check(to_host_(host, memory, size), "DtoH"); }
  void to_device(char* memory, const void* host, std::size_t size) { check(to_device_(memory, host, size), "HtoD"); }
  void* pinned(std::size_t size) {
    void* memory = nullptr;
    check(pin_(&memory, size, 0), "cuMemHostAlloc");
    return memory;
  }

 private:
  static void check(int result, const char* what) {
    if (result != 0) give_up(std::string(what) + " failed with CUDA error " + std::to_string(result));
  }
  void* context_ = nullptr;
  int (*set_current_)(void*);
  int (*allocate_)(void**, std::size_t);
  int (*fill_)(void*, unsigned char, std::size_t);
  int (*to_host_)(void*, const void*, std::size_t);
  int (*to_device_)(void*, const void*, std::size_t);
  int (*pin_)(void**, std::size_t, unsigned);
  int (*synchronize_)();
};

struct Library {
  std::string name;
  decltype(&cuFileHandleRegister) register_handle;
  decltype(&cuFileHandleDeregister) deregister_handle;
  decltype(&cuFileBufRegister) register_buffer;
  decltype(&cuFileBufDeregister) deregister_buffer;
  decltype(&cuFileRead) read;
  decltype(&cuFileWrite) write;
};

Library load(const char* path) {
  void* handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) give_up(::dlerror());
  Library library;
  library.name = path;
  library.register_handle = symbol<decltype(&cuFileHandleRegister)>(handle, "cuFileHandleRegister");
  library.deregister_handle = symbol<decltype(&cuFileHandleDeregister)>(handle, "cuFileHandleDeregister");
  library.register_buffer = symbol<decltype(&cuFileBufRegister)>(handle, "cuFileBufRegister");
  library.deregister_buffer = symbol<decltype(&cuFileBufDeregister)>(handle, "cuFileBufDeregister");
  library.read = symbol<decltype(&cuFileRead)>(handle, "cuFileRead");
  library.write = symbol<decltype(&cuFileWrite)>(handle, "cuFileWrite");
  const auto open = symbol<decltype(&cuFileDriverOpen)>(handle, "cuFileDriverOpen");
  if (const CUfileError_t error = open(); error.err != CU_FILE_SUCCESS) {
    give_up(library.name + ": cuFileDriverOpen says " + std::to_string(error.err));
  }
  return library;
}

struct Sample {
  double value = 0;  // GB/s, or microseconds.
  double extra = 0;  // CPU seconds a GB, or the 99th percentile in microseconds.
};

class Handle {
 public:
  Handle(const Library& library, const std::string& file, int flags) : library_(library) {
    fd_ = ::open(file.c_str(), flags | O_CLOEXEC, 0644);
    if (fd_ < 0) give_up("cannot open " + file);
    CUfileDescr_t descr{};
    descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descr.handle.fd = fd_;
    if (const CUfileError_t error = library.register_handle(&handle_, &descr); error.err != CU_FILE_SUCCESS) {
      give_up(library.name + ": cuFileHandleRegister says " + std::to_string(error.err));
    }
  }
  ~Handle() {
    library_.deregister_handle(handle_);
    ::close(fd_);
  }
  CUfileHandle_t get() const { return handle_; }

 private:
  const Library& library_;
  int fd_;
  CUfileHandle_t handle_ = nullptr;
};

struct Bench {
  Cuda& cuda;
  std::string file;
  std::size_t size;
  char* memory;
  int pairs;
};

Sample timed(std::size_t bytes, const std::function<void()>& work) {
  const double start = now();
  const double cpu_start = cpu();
  work();
  const double seconds = now() - start;
  return {static_cast<double>(bytes) / seconds / 1e9, (cpu() - cpu_start) / (static_cast<double>(bytes) / 1e9)};
}

void expect(ssize_t got, std::size_t wanted, const Library& library) {
  if (got != static_cast<ssize_t>(wanted)) {
    give_up(library.name + ": moved " + std::to_string(got) + " bytes of " + std::to_string(wanted) + ", errno " +
            std::to_string(errno));
  }
}

Sample read_whole(const Bench& bench, const Library& library, int flags) {
  const Handle handle(library, bench.file, O_RDONLY | flags);
  return timed(bench.size,
               [&] { expect(library.read(handle.get(), bench.memory, bench.size, 0, 0), bench.size, library); });
}

Sample read_threads(const Bench& bench, const Library& library, unsigned count, std::size_t block) {
  const Handle handle(library, bench.file, O_RDONLY);
  return timed(bench.size, [&] {
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        bench.cuda.enter();
        for (std::size_t at = next.fetch_add(block); at < bench.size; at = next.fetch_add(block)) {
          const std::size_t size = std::min(block, bench.size - at);
          const auto offset = static_cast<off_t>(at);
          expect(library.read(handle.get(), bench.memory, size, offset, offset), size, library);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

Sample latency(const Bench& bench, const Library& library, std::size_t block) {
  const Handle handle(library, bench.file, O_RDONLY);
  std::mt19937_64 random(1);
  std::vector<double> times;
  for (int i = 0; i < 3000; ++i) {
    const auto offset = static_cast<off_t>(random() % (bench.size / block) * block);
    const double start = now();
    expect(library.read(handle.get(), bench.memory, block, offset, 0), block, library);
    if (i >= 500) times.push_back((now() - start) * 1e6);
  }
  return {percentile(times, 0.5), percentile(times, 0.99)};
}

Sample write_whole(const Bench& bench, const Library& library, bool fresh) {
  const std::string name = bench.file + ".written";
  if (fresh) ::unlink(name.c_str());
  const std::size_t size = bench.size / 2;
  const Handle handle(library, name, O_RDWR | O_CREAT);
  return timed(size, [&] { expect(library.write(handle.get(), bench.memory, size, 0, 0), size, library); });
}

void make_file(const Bench& bench) {
  const int fd = ::open(bench.file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) give_up("cannot make " + bench.file);
  struct stat status {};
  ::fstat(fd, &status);
  std::vector<std::uint64_t> block(1 << 20);
  std::mt19937_64 random(7);
  for (std::size_t at = 0; at < bench.size; at += block.size() * 8) {
    const std::size_t size = std::min(block.size() * 8, bench.size - at);
    if (static_cast<std::size_t>(status.st_size) < bench.size) {
      for (std::uint64_t& word : block) word = random();
      if (::pwrite(fd, block.data(), size, static_cast<off_t>(at)) != static_cast<ssize_t>(size)) give_up("disk full?");
    } else if (::pread(fd, block.data(), size, static_cast<off_t>(at)) != static_cast<ssize_t>(size)) {
      give_up("cannot read " + bench.file);
    }
  }
  ::fsync(fd);
  ::close(fd);
}

void verify(const Bench& bench, const Library& library, const char* what) {
  const int fd = ::open(bench.file.c_str(), O_RDONLY | O_CLOEXEC);
  const std::size_t block = 64 << 20;
  std::vector<char> from_device(block);
  std::vector<char> from_file(block);
  for (std::size_t at = 0; at < bench.size; at += block) {
    const std::size_t size = std::min(block, bench.size - at);
    bench.cuda.to_host(from_device.data(), bench.memory + at, size);
    if (::pread(fd, from_file.data(), size, static_cast<off_t>(at)) != static_cast<ssize_t>(size) ||
        std::memcmp(from_device.data(), from_file.data(), size) != 0) {
      give_up(library.name + ": wrong bytes in " + what + " near " + std::to_string(at));
    }
  }
  ::close(fd);
  bench.cuda.fill(bench.memory, bench.size);
}

struct Row {
  std::vector<double> value;
  std::vector<double> extra;
  void add(const Sample& sample) {
    value.push_back(sample.value);
    extra.push_back(sample.extra);
  }
};

struct Case {
  const char* name;
  bool higher_is_better;
  bool fills_memory;  // The whole file is in device memory afterwards, and can be compared.
  std::function<Sample(const Library&)> run;
};

void print_row(const char* name, bool higher_is_better, const Row& ours, const Row& theirs) {
  const auto median = [](const std::vector<double>& values) { return percentile(values, 0.5); };
  const auto low = [](const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); };
  const auto high = [](const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); };
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.value.size(); ++i) ratios.push_back(ours.value[i] / theirs.value[i]);
  std::printf("%-34s %8.2f [%6.2f %6.2f] %7.3f | %8.2f [%6.2f %6.2f] %7.3f | x%5.2f  %s x%5.2f\n", name,
              median(ours.value), low(ours.value), high(ours.value), median(ours.extra), median(theirs.value),
              low(theirs.value), high(theirs.value), median(theirs.extra), median(ratios),
              higher_is_better ? "cpu" : "p99", median(ours.extra) / median(theirs.extra));
  std::fflush(stdout);
}

void link_ceiling(const Bench& bench) {
  const std::size_t block = std::min<std::size_t>(bench.size, 1 << 30);
  void* host = bench.cuda.pinned(block);
  std::memset(host, 1, block);
  Row row;
  for (int i = 0; i < 6; ++i) row.add(timed(block, [&] { bench.cuda.to_device(bench.memory, host, block); }));
  std::printf("link, pinned host to device: %.1f GB/s\n", percentile(row.value, 0.5));
}

}  // namespace

int main(int argc, char** argv) {
  int pairs = 5;
  std::size_t mib = 4096;
  std::vector<const char*> names;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--pairs") == 0 && i + 1 < argc) pairs = std::atoi(argv[++i]);
    else if (std::strcmp(argv[i], "--size") == 0 && i + 1 < argc) mib = std::strtoul(argv[++i], nullptr, 10);
    else names.push_back(argv[i]);
  }
  if (names.size() != 3 || pairs < 1 || mib < 1) {
    std::fprintf(stderr, "usage: versus [--pairs N] [--size MIB] FILE OURS THEIRS\n");
    return 2;
  }
  Cuda cuda;
  Bench bench{cuda, names[0], mib << 20, nullptr, pairs};
  bench.memory = cuda.allocate(bench.size);
  make_file(bench);
  link_ceiling(bench);
  const Library ours = load(names[1]);
  const Library theirs = load(names[2]);
  const Case cases[] = {
      {"read whole file, one call", true, true, [&](const Library& l) { return read_whole(bench, l, 0); }},
      {"read, 4 threads x 16 MiB", true, true, [&](const Library& l) { return read_threads(bench, l, 4, 16 << 20); }},
      {"read, 16 threads x 1 MiB", true, true, [&](const Library& l) { return read_threads(bench, l, 16, 1 << 20); }},
      {"read 4 KiB, us p50", false, false, [&](const Library& l) { return latency(bench, l, 4096); }},
      {"read 64 KiB, us p50", false, false, [&](const Library& l) { return latency(bench, l, 65536); }},
      {"read 256 KiB, us p50", false, false, [&](const Library& l) { return latency(bench, l, 262144); }},
      {"read 1 MiB, us p50", false, false, [&](const Library& l) { return latency(bench, l, 1 << 20); }},
      {"write half, new file, page cache", true, false, [&](const Library& l) { return write_whole(bench, l, true); }},
      {"write half, over it", true, false, [&](const Library& l) { return write_whole(bench, l, false); }},
      {"read O_DIRECT, one call", true, true, [&](const Library& l) { return read_whole(bench, l, O_DIRECT); }},
  };
  std::printf("%-34s %8s %15s %7s | %8s %15s %7s | ratios (ours / theirs)\n", "", "ours", "[low high]", "cpu/p99",
              "theirs", "[low high]", "cpu/p99");
  for (const Case& one : cases) {
    Row of_ours;
    Row of_theirs;
    for (int pair = -1; pair < pairs; ++pair) {  // The first pair warms up and is compared.
      const bool swapped = pair % 2 != 0;
      for (const Library* library : {swapped ? &theirs : &ours, swapped ? &ours : &theirs}) {
        const Sample sample = one.run(*library);
        if (pair < 0 && one.fills_memory) verify(bench, *library, one.name);
        if (pair >= 0) (library == &ours ? of_ours : of_theirs).add(sample);
      }
    }
    print_row(one.name, one.higher_is_better, of_ours, of_theirs);
  }
  ::unlink((bench.file + ".written").c_str());
  return 0;
}
