// Mesa's software driver for Vulkan, as Dawn takes it: a driver around it that claims two features more.
//
// Dawn opens only what has dynamic indexing of arrays of sampled and of storage images. Mesa 22.3 lacks that, but has
// f16, which SwiftShader has not. Our kernels have no images. Made by scripts/check-wgsl, with the path of the real
// driver as DRIVER. The declarations are those parts of Vulkan that are touched, so that no headers are needed.

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// VkPhysicalDeviceFeatures: 55 VkBool32, of which these are shaderSampledImageArrayDynamicIndexing and
// shaderStorageImageArrayDynamicIndexing.
enum { SAMPLED_IMAGES = 34, STORAGE_IMAGES = 36 };
typedef struct {
    uint32_t has[55];
} Features;

// VkPhysicalDeviceFeatures2, and what all structures of a chain begin with.
enum { FEATURES_2 = 1000059000 };
typedef struct Features2 {
    uint32_t type;
    struct Features2 *next;
    Features features;
} Features2;

// VkDeviceCreateInfo.
typedef struct {
    uint32_t type;
    Features2 *next;
    uint32_t flags, queue_count;
    const void *queues;
    uint32_t layer_count;
    const void *layers;
    uint32_t extension_count;
    const void *extensions;
    Features *features;
} DeviceInfo;

typedef void (*Function)(void);
typedef Function (*Lookup)(void *instance, const char *name);

static void (*features)(void *, Features *);
static void (*features_2)(void *, Features2 *);
static int32_t (*create_device)(void *, const DeviceInfo *, const void *, void *);

static void claim(Features *of, uint32_t claimed) {
    of->has[SAMPLED_IMAGES] = of->has[STORAGE_IMAGES] = claimed;
}

static void our_features(void *device, Features *found) {
    features(device, found);
    claim(found, 1);
}

static void our_features_2(void *device, Features2 *found) {
    features_2(device, found);
    claim(&found->features, 1);
}

// The real driver is not asked for what it does not have.
static int32_t our_create_device(void *device, const DeviceInfo *info, const void *allocator, void *made) {
    if (info->features) {
        claim(info->features, 0);
    }
    for (Features2 *one = info->next; one; one = one->next) {
        if (one->type == FEATURES_2) {
            claim(&one->features, 0);
        }
    }
    return create_device(device, info, allocator, made);
}

static Function driver(const char *name) {
    static void *library;
    if (!library) {
        library = dlopen(DRIVER, RTLD_NOW);
    }
    return library ? (Function)dlsym(library, name) : NULL;
}

static Function found(const char *lookup, void *instance, const char *name) {
    Lookup real = (Lookup)driver(lookup);
    Function function = real ? real(instance, name) : NULL;
    if (!function) {
        return NULL;
    }
    if (!strcmp(name, "vkGetPhysicalDeviceFeatures")) {
        features = (void (*)(void *, Features *))function;
        return (Function)our_features;
    }
    if (!strcmp(name, "vkGetPhysicalDeviceFeatures2") || !strcmp(name, "vkGetPhysicalDeviceFeatures2KHR")) {
        features_2 = (void (*)(void *, Features2 *))function;
        return (Function)our_features_2;
    }
    if (!strcmp(name, "vkCreateDevice")) {
        create_device = (int32_t (*)(void *, const DeviceInfo *, const void *, void *))function;
        return (Function)our_create_device;
    }
    return function;
}

// What Vulkan's loader asks a driver for.

Function vk_icdGetInstanceProcAddr(void *instance, const char *name) {
    return found("vk_icdGetInstanceProcAddr", instance, name);
}

Function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name) {
    return found("vk_icdGetPhysicalDeviceProcAddr", instance, name);
}

int32_t vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    int32_t (*real)(uint32_t *) = (int32_t (*)(uint32_t *))driver("vk_icdNegotiateLoaderICDInterfaceVersion");
    // VK_ERROR_INCOMPATIBLE_DRIVER.
    return real ? real(version) : -9;
}
