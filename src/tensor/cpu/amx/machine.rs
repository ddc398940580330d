//! The tiles of the machine: instructions, and whether they may be used.

use std::arch::asm;

use super::Tiles;

/// Layout of the tile configuration (palette 1): 16 rows of 64 bytes for each of eight tiles.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes_per_row: [u16; 16],
    rows: [u8; 16],
}

pub struct Machine(());

macro_rules! each_tile {
    ($tile:expr, $name:ident => $body:expr) => {
        match $tile {
            0 => {
                macro_rules! $name {
                    () => {
                        "tmm0"
                    };
                }
                $body
            }
            1 => {
                macro_rules! $name {
                    () => {
                        "tmm1"
                    };
                }
                $body
            }
            2 => {
                macro_rules! $name {
                    () => {
                        "tmm2"
                    };
                }
                $body
            }
            3 => {
                macro_rules! $name {
                    () => {
                        "tmm3"
                    };
                }
                $body
            }
            4 => {
                macro_rules! $name {
                    () => {
                        "tmm4"
                    };
                }
                $body
            }
            5 => {
                macro_rules! $name {
                    () => {
                        "tmm5"
                    };
                }
                $body
            }
            6 => {
                macro_rules! $name {
                    () => {
                        "tmm6"
                    };
                }
                $body
            }
            7 => {
                macro_rules! $name {
                    () => {
                        "tmm7"
                    };
                }
                $body
            }
            other => unreachable!("there is no tile {other}"),
        }
    };
}

// SAFETY of all blocks below: a `Machine` is only made where AMX was found and allowed (`available`); pointers are
// valid by the promise of the caller; the compiler itself never uses tiles.
impl Tiles for Machine {
    #[inline(always)]
    fn new() -> Self {
        let mut configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            bytes_per_row: [0; 16],
            rows: [0; 16],
        };
        configuration.bytes_per_row[..8].fill(64);
        configuration.rows[..8].fill(16);
        unsafe { asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack)) };
        Self(())
    }

    #[inline(always)]
    fn zero(&mut self, tile: usize) {
        each_tile!(tile, t => unsafe { asm!(concat!("tilezero ", t!()), options(nostack)) });
    }

    #[inline(always)]
    unsafe fn load(&mut self, tile: usize, from: *const u16, stride: usize) {
        each_tile!(tile, t => unsafe {
            asm!(concat!("tileloadd ", t!(), ", [{0} + {1}]"), in(reg) from, in(reg) 2 * stride,
                 options(nostack, readonly))
        });
    }

    #[inline(always)]
    fn multiply(&mut self, to: usize, a: usize, b: usize) {
        each_tile!(to, t => each_tile!(a, l => each_tile!(b, r => unsafe {
            asm!(concat!("tdpbf16ps ", t!(), ", ", l!(), ", ", r!()), options(nostack))
        })));
    }

    #[inline(always)]
    unsafe fn store(&self, tile: usize, to: *mut f32) {
        each_tile!(tile, t => unsafe {
            asm!(concat!("tilestored [{0} + {1}], ", t!()), in(reg) to, in(reg) 64usize, options(nostack))
        });
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        unsafe { asm!("tilerelease", options(nostack)) };
    }
}

/// Whether the processor has AMX with bf16 and the system lets this process use it.
pub fn available() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    #[target_feature(enable = "xsave")]
    fn enabled() -> u64 {
        // SAFETY: register 0 always exists where XSAVE is enabled.
        unsafe { _xgetbv(0) }
    }
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    const STATE: u64 = 1 << 17 | 1 << 18;
    let leaf = __cpuid(0).eax;
    let has = leaf >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILE) == BF16 | TILE;
    let saves = __cpuid(1).ecx & (1 << 27) != 0;
    // SAFETY: the system enabled XSAVE, as just read.
    has && saves && unsafe { enabled() } & STATE == STATE && permitted()
}

/// Asks Linux for the large tile registers; elsewhere there is nobody to ask.
fn permitted() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_PRCTL: i64 = 158;
        const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
        const TILE_DATA: u64 = 18;
        let result: i64;
        // SAFETY: a system call that only changes what this process may use.
        unsafe {
            asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") ARCH_REQ_XCOMP_PERM,
                 in("rsi") TILE_DATA, out("rcx") _, out("r11") _, options(nostack));
        }
        result == 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}
