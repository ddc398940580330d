//! Instruction sets: which one this machine has, and the vector type the micro-kernels are written in.

use std::sync::OnceLock;

/// An instruction set the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    Portable,
    Avx2,
}

impl Isa {
    /// The best instruction set of this machine, or the one `FOIL_CPU` names
    /// (`portable`, `avx2`; one that the machine lacks is ignored).
    pub fn detected() -> Isa {
        static ISA: OnceLock<Isa> = OnceLock::new();
        *ISA.get_or_init(|| {
            let best = best();
            match std::env::var("FOIL_CPU").as_deref() {
                Ok("portable") => Isa::Portable,
                _ => best,
            }
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2+fma",
        }
    }
}

fn best() -> Isa {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        return Isa::Avx2;
    }
    Isa::Portable
}

/// Eight f32 values that multiply and add as one.
pub trait Lanes: Copy {
    fn splat(value: f32) -> Self;
    /// # Safety
    /// `from` must be valid for reading 8 values.
    unsafe fn load(from: *const f32) -> Self;
    /// # Safety
    /// `to` must be valid for writing 8 values.
    unsafe fn store(self, to: *mut f32);
    /// `self + a · b`.
    fn plus_product(self, a: Self, b: Self) -> Self;
}

/// Number of values in [`Lanes`].
pub const LANES: usize = 8;

/// [`Lanes`] in plain Rust, for any machine.
#[derive(Clone, Copy)]
pub struct Plain([f32; LANES]);

impl Lanes for Plain {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        Plain([value; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises 8 readable values; unaligned reads are allowed here.
        Plain(unsafe { from.cast::<[f32; LANES]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller promises 8 writable values; unaligned writes are allowed here.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    fn plus_product(mut self, a: Self, b: Self) -> Self {
        for i in 0..LANES {
            self.0[i] += a.0[i] * b.0[i];
        }
        self
    }
}

/// [`Lanes`] as one AVX register. Only used below a check for AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct Avx(std::arch::x86_64::__m256);

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: this type is only used where AVX2 and FMA were detected.
        Avx(unsafe { std::arch::x86_64::_mm256_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as above; the caller promises 8 readable values.
        Avx(unsafe { std::arch::x86_64::_mm256_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above; the caller promises 8 writable values.
        unsafe { std::arch::x86_64::_mm256_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    fn plus_product(self, a: Self, b: Self) -> Self {
        // SAFETY: as above.
        Avx(unsafe { std::arch::x86_64::_mm256_fmadd_ps(a.0, b.0, self.0) })
    }
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
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    body($($arg),*)
                }
                if $crate::tensor::cpu::simd::Isa::detected() == $crate::tensor::cpu::simd::Isa::Avx2 {
                    // SAFETY: the instruction set was detected.
                    return unsafe { avx2($($arg),*) };
                }
            }
            body($($arg),*)
        }
    };
}
pub(crate) use for_each_isa;
