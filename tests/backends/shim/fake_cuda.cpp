// A CUDA driver and compiler that have no GPU: those functions of libcuda and libnvrtc that foil calls. The compiler
// hands kernels to the machine's C++ compiler, the driver runs them by `cuda_on_cpu.h`. With it the whole path of
// `--device cuda` runs: the program, its driver code, the kernels.
//
// It is strict where real drivers are: a thread must enter the context, copies must lie in an allocation. What it is
// told to do wrong (environment):
//     FAKE_CUDA_DEVICES=N      so many GPUs (1)
//     FAKE_CUDA_BYTES=N        so much memory (1 GiB)
//     FAKE_CUDA_LOST_AFTER=N   after N launches every call fails, as after an illegal address
//     FAKE_CUDA_BREAK=NAME     the file of this name does not compile
//     FAKE_CUDA_REFUSE=KIND    the driver takes no images of this kind: ptx or cubin
//     FAKE_CUDA_CAPABILITY=N   compute capability of the GPUs (80)

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <unistd.h>

namespace {

enum Result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
};

using Launch = int (*)(const uint32_t *, void *const *, uint32_t);
using Address = unsigned long long;

std::mutex lock;
std::map<Address, size_t> allocated;
size_t allocated_bytes = 0;
uint64_t launches = 0;
int contexts[16];
thread_local void *current = nullptr;

uint64_t told(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

bool lost() { return launches > told("FAKE_CUDA_LOST_AFTER", UINT64_MAX - 1); }

// What every call asks first.
int state() {
    if (!current) {
        return INVALID_CONTEXT;
    }
    return lost() ? LAUNCH_FAILED : SUCCESS;
}

bool inside(Address at, size_t bytes) {
    auto next = allocated.upper_bound(at);
    if (next == allocated.begin()) {
        return false;
    }
    auto [start, size] = *--next;
    return at + bytes <= start + size;
}

struct Program {
    std::string source, name, log, file;
    // Compiled for a real architecture: there is machine code.
    bool real = false;
};

// What machine code begins with here; PTX has the name of the library alone.
const std::string CUBIN = "cubin:";

// The names after `void` of kernels.
std::string entries(const std::string &source) {
    const std::string mark = "__launch_bounds__(256) void ";
    std::string found;
    for (size_t at = 0; (at = source.find(mark, at)) != std::string::npos;) {
        at += mark.size();
        found += "EXPORT(" + source.substr(at, source.find('(', at) - at) + ") ";
    }
    return found;
}

std::string read(const std::string &path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

} // namespace

#define LOCKED                                                                                                         \
    std::lock_guard<std::mutex> guard(lock);                                                                           \
    if (int wrong = state()) {                                                                                         \
        return wrong;                                                                                                  \
    }

extern "C" {

int cuInit(unsigned int) { return told("FAKE_CUDA_DEVICES", 1) == 0 ? NO_DEVICE : SUCCESS; }

int cuDeviceGetCount(int *count) {
    *count = int(told("FAKE_CUDA_DEVICES", 1));
    return SUCCESS;
}

int cuDeviceGet(int *device, int number) {
    *device = number;
    return number < int(told("FAKE_CUDA_DEVICES", 1)) ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, size, "Fake GPU %d", device);
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int) {
    *bytes = told("FAKE_CUDA_BYTES", 1 << 30);
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int) {
    // Compute capability, by CUDA's numbers of its two parts.
    const int capability = int(told("FAKE_CUDA_CAPABILITY", 80));
    *value = attribute == 75 ? capability / 10 : capability % 10;
    return attribute == 75 || attribute == 76 ? SUCCESS : INVALID_VALUE;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &contexts[device];
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }

int cuCtxSetCurrent(void *context) {
    current = context;
    return SUCCESS;
}

int cuCtxSynchronize() {
    LOCKED;
    return SUCCESS;
}

int cuMemAlloc_v2(Address *at, size_t bytes) {
    LOCKED;
    if (allocated_bytes + bytes > told("FAKE_CUDA_BYTES", 1 << 30)) {
        return OUT_OF_MEMORY;
    }
    void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    // NaNs: a kernel that reads what nobody wrote does not go unnoticed.
    memset(memory, 0xff, bytes);
    *at = reinterpret_cast<Address>(memory);
    allocated[*at] = bytes;
    allocated_bytes += bytes;
    return SUCCESS;
}

int cuMemFree_v2(Address at) {
    std::lock_guard<std::mutex> guard(lock);
    auto found = allocated.find(at);
    if (!current || found == allocated.end()) {
        return INVALID_VALUE;
    }
    allocated_bytes -= found->second;
    allocated.erase(found);
    free(reinterpret_cast<void *>(at));
    return SUCCESS;
}

int cuMemcpyHtoD_v2(Address to, const void *from, size_t bytes) {
    LOCKED;
    if (!inside(to, bytes)) {
        return INVALID_VALUE;
    }
    memcpy(reinterpret_cast<void *>(to), from, bytes);
    return SUCCESS;
}

int cuMemcpyDtoH_v2(void *to, Address from, size_t bytes) {
    LOCKED;
    if (!inside(from, bytes)) {
        return INVALID_VALUE;
    }
    memcpy(to, reinterpret_cast<void *>(from), bytes);
    return SUCCESS;
}

int cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) {
    LOCKED;
    if (!inside(from, bytes) || !inside(to, bytes)) {
        return INVALID_VALUE;
    }
    memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
    return SUCCESS;
}

int cuModuleLoadData(void **module, const void *image) {
    LOCKED;
    std::string file = static_cast<const char *>(image);
    const bool cubin = file.rfind(CUBIN, 0) == 0;
    const char *refused = getenv("FAKE_CUDA_REFUSE");
    if (refused && std::string(refused) == (cubin ? "cubin" : "ptx")) {
        return INVALID_IMAGE;
    }
    if (cubin) {
        file = file.substr(CUBIN.size());
    }
    *module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    return *module ? SUCCESS : INVALID_IMAGE;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    LOCKED;
    *function = dlsym(module, ("places_" + std::string(name)).c_str());
    return *function ? SUCCESS : NOT_FOUND;
}

int cuLaunchKernel(void *function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads, unsigned int,
                   unsigned int, unsigned int, void *, void **places, void **) {
    LOCKED;
    launches++;
    if (lost()) {
        return LAUNCH_FAILED;
    }
    if (threads != 256 || x == 0 || y == 0 || z == 0 || y > 65535 || z > 65535) {
        return INVALID_VALUE;
    }
    const uint32_t groups[3] = {x, y, z};
    return reinterpret_cast<Launch>(function)(groups, places, 0) == 0 ? SUCCESS : LAUNCH_FAILED;
}

int cuGetErrorName(int error, const char **name) {
    switch (error) {
    case OUT_OF_MEMORY:
        *name = "CUDA_ERROR_OUT_OF_MEMORY";
        break;
    case NO_DEVICE:
        *name = "CUDA_ERROR_NO_DEVICE";
        break;
    case LAUNCH_FAILED:
        *name = "CUDA_ERROR_LAUNCH_FAILED";
        break;
    default:
        *name = "CUDA_ERROR";
    }
    return SUCCESS;
}

int cuGetErrorString(int error, const char **text) {
    switch (error) {
    case NO_DEVICE:
        *text = "no CUDA-capable device is detected";
        break;
    case LAUNCH_FAILED:
        *text = "unspecified launch failure";
        break;
    default:
        *text = "an error of the fake driver";
    }
    return SUCCESS;
}

// The compiler.

int nvrtcGetNumSupportedArchs(int *count) {
    *count = 2;
    return SUCCESS;
}

int nvrtcGetSupportedArchs(int *known) {
    known[0] = 75;
    known[1] = 80;
    return SUCCESS;
}

int nvrtcCreateProgram(Program **program, const char *source, const char *name, int, const char *const *,
                       const char *const *) {
    *program = new Program{source, name ? name : "kernel", "", "", false};
    return SUCCESS;
}

int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    // Next to this library, by what is compiled: once for all processes that a test starts.
    Dl_info here;
    dladdr(reinterpret_cast<void *>(&nvrtcCompileProgram), &here);
    std::string folder = here.dli_fname;
    folder = folder.substr(0, folder.rfind('/'));
    const char *broken = getenv("FAKE_CUDA_BREAK");
    if (broken && program->name == std::string(broken) + ".cu") {
        program->source += "\nthis is no C++\n";
    }
    std::string defined;
    for (int i = 0; i < count; i++) {
        if (!strncmp(options[i], "-D", 2)) {
            defined += std::string(options[i]) + " ";
        }
        if (!strncmp(options[i], "--gpu-architecture=sm_", 22)) {
            program->real = true;
        }
    }
    const auto hash = std::to_string(std::hash<std::string>()(defined + program->source));
    const auto base = folder + "/" + program->name + "." + hash;
    program->file = base + ".so";
    if (std::ifstream(program->file)) {
        return SUCCESS;
    }
    // Several processes may do so at once.
    const auto own = base + "." + std::to_string(getpid());
    std::ofstream(own + ".cu") << program->source;
    const auto partial = own + ".partial";
    const auto command = std::string("c++ -std=c++17 -O2 -ffp-contract=off -fPIC -shared -w -I" SHIM " ") + defined + "'-DSOURCE=\"" +
                         own + ".cu\"' '-DENTRIES=" + entries(program->source) + "' " SHIM "/glue.cpp -o " + partial +
                         " 2> " + own + ".log";
    if (system(command.c_str()) != 0) {
        program->log = read(own + ".log");
        return 6;
    }
    rename(partial.c_str(), program->file.c_str());
    return SUCCESS;
}

int nvrtcGetProgramLogSize(Program *program, size_t *size) {
    *size = program->log.size() + 1;
    return SUCCESS;
}

int nvrtcGetProgramLog(Program *program, char *log) {
    strcpy(log, program->log.c_str());
    return SUCCESS;
}

int nvrtcGetPTXSize(Program *program, size_t *size) {
    *size = program->file.size() + 1;
    return SUCCESS;
}

int nvrtcGetPTX(Program *program, char *ptx) {
    strcpy(ptx, program->file.c_str());
    return SUCCESS;
}

int nvrtcGetCUBINSize(Program *program, size_t *size) {
    *size = program->real ? CUBIN.size() + program->file.size() + 1 : 0;
    return SUCCESS;
}

int nvrtcGetCUBIN(Program *program, char *cubin) {
    if (program->real) {
        strcpy(cubin, (CUBIN + program->file).c_str());
    }
    return SUCCESS;
}

int nvrtcDestroyProgram(Program **program) {
    delete *program;
    *program = nullptr;
    return SUCCESS;
}

} // extern "C"
