//! Instruction sets: which one this machine has, and the vector types the micro-kernels are written in.

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// An instruction set the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust: SSE2 on x86-64, NEON on 64-bit ARM.
    Portable,
    /// AVX2 with fused multiply-add.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512, with dense convolutions of long sums as split bf16 products on AMX tiles. Only where asked for.
    Amx,
    /// AVX2, with dense convolutions as on AMX tiles but computed by AVX2: the arithmetic of the fast mode where there
    /// are no tiles, slowly. Only where asked for by name.
    AmxWritten,
}

/// Whether `--fast` was given: AMX may be used where the machine has it.
static FAST: AtomicBool = AtomicBool::new(false);

/// Allows the fast mode from here on: dense convolutions with long sums on AMX tiles, where the machine has them, with products of
/// three bf16 parts (about 1e-5 relative) instead of f32. Call it before any network is built.
pub fn allow_fast() {
    FAST.store(true, Ordering::Relaxed);
}

impl Isa {
    /// All instruction sets, simplest first.
    pub const ALL: [Isa; 5] = [
        Isa::Portable,
        Isa::Avx2,
        Isa::Avx512,
        Isa::Amx,
        Isa::AmxWritten,
    ];

    /// The name `FOIL_CPU` knows it by.
    pub fn key(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Amx => "amx",
            Isa::AmxWritten => "amx-written",
        }
    }

    /// The instruction set to use: the one `FOIL_CPU` names if this machine has it, else the best one
    /// (AMX only in fast mode).
    pub fn detected() -> Isa {
        static BEST: OnceLock<(Isa, bool)> = OnceLock::new();
        let (best, amx) = *BEST.get_or_init(|| match forced() {
            Ok(Some(isa)) => (isa, false),
            _ if Isa::Avx512.available() => (Isa::Avx512, Isa::Amx.available()),
            _ if Isa::Avx2.available() => (Isa::Avx2, false),
            _ => (Isa::Portable, false),
        });
        if amx && FAST.load(Ordering::Relaxed) {
            return Isa::Amx;
        }
        best
    }

    /// What it is, for people.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2+fma",
            Isa::Avx512 => "avx512",
            Isa::Amx => "avx512+amx bf16x3",
            Isa::AmxWritten => "avx2, amx written out bf16x3",
        }
    }

    /// Whether this machine can run it.
    #[cfg(target_arch = "x86_64")]
    pub fn available(self) -> bool {
        use std::arch::is_x86_feature_detected as has;
        match self {
            Isa::Portable => true,
            Isa::Avx2 | Isa::AmxWritten => has!("avx2") && has!("fma"),
            Isa::Avx512 => {
                has!("avx512f")
                    && has!("avx512bw")
                    && has!("avx512dq")
                    && has!("avx512vl")
                    && Isa::Avx2.available()
            }
            Isa::Amx => Isa::Avx512.available() && super::amx::available(),
        }
    }

    /// Whether this machine can run it.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn available(self) -> bool {
        self == Isa::Portable
    }
}

/// What `FOIL_CPU` asks for; an error says why it cannot be had.
pub fn forced() -> Result<Option<Isa>, String> {
    let name = std::env::var_os("FOIL_CPU").unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    let name = name.to_string_lossy();
    let known = Isa::ALL.map(Isa::key).join(", ");
    match Isa::ALL.into_iter().find(|isa| isa.key() == name) {
        Some(isa) if isa.available() => Ok(Some(isa)),
        Some(_) => Err(format!("FOIL_CPU={name}: this machine has no {name}")),
        None => Err(format!(
            "FOIL_CPU={name} is not an instruction set; known: {known}"
        )),
    }
}

/// Several f32 values that multiply and add as one register.
pub trait Lanes: Copy {
    /// Number of values.
    const COUNT: usize;
    /// Pixels of a convolution tile: with two registers each they fill the register file, but for four.
    const PIXELS: usize;

    fn splat(value: f32) -> Self;
    /// # Safety
    /// `from` must be valid for reading `COUNT` values.
    unsafe fn load(from: *const f32) -> Self;
    /// # Safety
    /// `to` must be valid for writing `COUNT` values.
    unsafe fn store(self, to: *mut f32);
    /// `self + a · b`.
    fn plus_product(self, a: Self, b: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// `max(self, low)`; a NaN in `self` stays.
    fn at_least(self, low: Self) -> Self;
    /// `min(self, high)`; a NaN in `self` stays.
    fn at_most(self, high: Self) -> Self;
    /// The sum of the values, halves upon halves.
    fn sum(self) -> f32;
}

/// [`Lanes`] in plain Rust, for any machine.
#[derive(Clone, Copy)]
pub struct Plain([f32; 4]);

impl Plain {
    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        // Written out: builds without optimisation across units do not inline the loops of the standard library.
        let ([a, b, c, d], [i, j, k, l]) = (self.0, other.0);
        Plain([f(a, i), f(b, j), f(c, k), f(d, l)])
    }
}

impl Lanes for Plain {
    const COUNT: usize = 4;
    const PIXELS: usize = 6;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Plain([value; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises 4 readable values; unaligned reads are allowed here.
        Plain(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller promises 4 writable values; unaligned writes are allowed here.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    fn plus_product(self, a: Self, b: Self) -> Self {
        // ARM always has the fused instruction; elsewhere it would be a call.
        if cfg!(target_arch = "aarch64") {
            let ([a, b, c, d], [i, j, k, l], [p, q, r, s]) = (a.0, b.0, self.0);
            Plain([
                a.mul_add(i, p),
                b.mul_add(j, q),
                c.mul_add(k, r),
                d.mul_add(l, s),
            ])
        } else {
            self.plus(a.times(b))
        }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.with(other, |a, b| a * b)
    }

    #[inline(always)]
    fn at_least(self, low: Self) -> Self {
        self.with(low, |a, b| if a < b { b } else { a })
    }

    #[inline(always)]
    fn at_most(self, high: Self) -> Self {
        self.with(high, |a, b| if a > b { b } else { a })
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let [a, b, c, d] = self.0;
        (a + c) + (b + d)
    }
}

/// The sum of a register's values; there is no one instruction for it.
///
/// # Safety
/// The machine must have AVX.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn sum_of_eight(register: std::arch::x86_64::__m256) -> f32 {
    use std::arch::x86_64::*;
    // SAFETY: the caller's promise.
    unsafe {
        let high = _mm256_extractf128_ps::<1>(register);
        let four = _mm_add_ps(_mm256_castps256_ps128(register), high);
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// A register type of x86-64 as [`Lanes`]. Only used below a check for its instruction set.
macro_rules! x86_lanes {
    ($(#[$doc:meta])* $name:ident($register:ident), $count:literal, $pixels:literal,
     $set1:ident $loadu:ident $storeu:ident $fmadd:ident $add:ident $sub:ident $mul:ident $max:ident $min:ident,
     $sum:path) => {
        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        #[derive(Clone, Copy)]
        pub struct $name(std::arch::x86_64::$register);

        // SAFETY of all blocks below: the type is only used where its instruction set was detected; pointers are
        // valid for `COUNT` values by the promise of the caller.
        #[cfg(target_arch = "x86_64")]
        impl Lanes for $name {
            const COUNT: usize = $count;
            const PIXELS: usize = $pixels;

            #[inline(always)]
            fn splat(value: f32) -> Self {
                Self(unsafe { std::arch::x86_64::$set1(value) })
            }

            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                Self(unsafe { std::arch::x86_64::$loadu(from) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                unsafe { std::arch::x86_64::$storeu(to, self.0) }
            }

            #[inline(always)]
            fn plus_product(self, a: Self, b: Self) -> Self {
                Self(unsafe { std::arch::x86_64::$fmadd(a.0, b.0, self.0) })
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                Self(unsafe { std::arch::x86_64::$add(self.0, other.0) })
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                Self(unsafe { std::arch::x86_64::$sub(self.0, other.0) })
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                Self(unsafe { std::arch::x86_64::$mul(self.0, other.0) })
            }

            // The second operand is returned if either is a NaN.
            #[inline(always)]
            fn at_least(self, low: Self) -> Self {
                Self(unsafe { std::arch::x86_64::$max(low.0, self.0) })
            }

            #[inline(always)]
            fn at_most(self, high: Self) -> Self {
                Self(unsafe { std::arch::x86_64::$min(high.0, self.0) })
            }

            #[inline(always)]
            fn sum(self) -> f32 {
                unsafe { $sum(self.0) }
            }
        }
    };
}

x86_lanes!(
    /// [`Lanes`] as one AVX register.
    Avx(__m256), 8, 6,
    _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_add_ps _mm256_sub_ps _mm256_mul_ps
    _mm256_max_ps _mm256_min_ps, sum_of_eight
);
x86_lanes!(
    /// [`Lanes`] as one AVX-512 register.
    Avx512(__m512), 16, 12,
    _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps
    _mm512_max_ps _mm512_min_ps, std::arch::x86_64::_mm512_reduce_add_ps
);

/// Asks for the cache line of a value that is needed soon; any address will do.
#[inline(always)]
pub fn prefetch(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it reads nothing and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Flushes denormal numbers to zero on this thread while it lives: a network whose activations die out would
/// otherwise run ten times slower. Rust promises nothing about arithmetic under a changed control register; what compilers do
/// with it in practice is to compute a constant without flushing. It stays on its thread. Each piece of work that goes to a
/// worker begins with one; pieces that hand out further work must not hold it meanwhile.
pub struct FlushDenormals {
    here: PhantomData<*const ()>,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    before: Register,
}

#[cfg(target_arch = "x86_64")]
type Register = u32;
#[cfg(target_arch = "aarch64")]
type Register = u64;

impl FlushDenormals {
    /// Flush-to-zero and denormals-are-zero of the control register.
    #[cfg(target_arch = "x86_64")]
    const BITS: Register = 1 << 15 | 1 << 6;
    /// Flush-to-zero of the control register, for what goes in and what comes out.
    #[cfg(target_arch = "aarch64")]
    const BITS: Register = 1 << 24;

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub fn on() -> Self {
        let before = Self::register();
        Self::set(before | Self::BITS);
        Self {
            here: PhantomData,
            before,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn register() -> Register {
        let mut register = 0;
        // SAFETY: SSE is part of x86-64; reads the control register.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut register, options(nostack)) };
        register
    }

    #[cfg(target_arch = "x86_64")]
    fn set(register: Register) {
        // SAFETY: SSE is part of x86-64; only the two flushing bits ever differ from what was read.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &register, options(nostack)) };
    }

    #[cfg(target_arch = "aarch64")]
    fn register() -> Register {
        let register: Register;
        // SAFETY: every aarch64 processor that Rust knows has this register; reads it.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) register, options(nostack)) };
        register
    }

    #[cfg(target_arch = "aarch64")]
    fn set(register: Register) {
        // SAFETY: only the flushing bit ever differs from what was read.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) register, options(nostack)) };
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub fn on() -> Self {
        Self { here: PhantomData }
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Drop for FlushDenormals {
    fn drop(&mut self) {
        Self::set(self.before);
    }
}

/// Does a piece of work with denormals flushed.
pub fn flushed<R>(work: impl FnOnce() -> R) -> R {
    let _flush = FlushDenormals::on();
    work()
}

/// Compiles a function for every instruction set and calls the best one of this machine.
macro_rules! for_each_isa {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                use $crate::cpu::simd::Isa;

                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    body($($arg),*)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    body($($arg),*)
                }
                match Isa::detected() {
                    // SAFETY: the instruction set was detected.
                    Isa::Avx2 | Isa::AmxWritten => return unsafe { avx2($($arg),*) },
                    // SAFETY: as above.
                    Isa::Avx512 | Isa::Amx => return unsafe { avx512($($arg),*) },
                    Isa::Portable => {}
                }
            }
            body($($arg),*)
        }
    };
}
pub(crate) use for_each_isa;

/// Compiles a function that is generic in [`Lanes`] for every instruction set and calls the best one of this machine:
/// `for_each_lanes!(fn name(arg: Type, …) => kernel::<_>)` makes `name`, which calls `kernel::<V>(arg, …)`.
macro_rules! for_each_lanes {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) => $kernel:ident) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $ty),*) {
            use $crate::cpu::simd::{Isa, Plain};

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx2($($arg: $ty),*) {
                $kernel::<$crate::cpu::simd::Avx>($($arg),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx512($($arg: $ty),*) {
                $kernel::<$crate::cpu::simd::Avx512>($($arg),*);
            }
            match Isa::detected() {
                // SAFETY: the instruction set was detected.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 | Isa::AmxWritten => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => unsafe { avx512($($arg),*) },
                _ => $kernel::<Plain>($($arg),*),
            }
        }
    };
}
pub(crate) use for_each_lanes;
