//! Kernels compiled for the device, once each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType,
    BufferBindingType, ComputePipeline, ComputePipelineDescriptor, Device, ErrorFilter,
    PipelineCompilationOptions, PipelineLayoutDescriptor, ShaderModuleDescriptor, ShaderSource,
    ShaderStages,
};

use super::adapters::ready;
use super::faults::Faults;
use crate::gpu::kernels::Kernel;
use crate::{Precision, TensorError};

/// A kernel that can be launched.
pub struct Pipeline {
    pub compiled: ComputePipeline,
    pub arguments: BindGroupLayout,
}

/// Those that were asked for so far, by file and entry.
pub struct Pipelines {
    faults: Faults,
    made: Mutex<HashMap<(&'static str, &'static str), Arc<Pipeline>>>,
}

impl Pipelines {
    pub fn new(faults: Faults) -> Self {
        Self {
            faults,
            made: Mutex::default(),
        }
    }

    /// `writes` says of each argument whether the kernel writes to it.
    pub fn get(
        &self,
        device: &Device,
        kernel: &'static Kernel,
        precision: Precision,
        writes: impl Iterator<Item = bool>,
    ) -> Result<Arc<Pipeline>, TensorError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kernel.name, kernel.entry);
        if let Some(pipeline) = made.get(&key) {
            return Ok(Arc::clone(pipeline));
        }
        let source = self.faults.source(kernel.name, kernel.wgsl(precision));
        let pipeline = Arc::new(compile(device, kernel, source, writes)?);
        made.insert(key, Arc::clone(&pipeline));
        Ok(pipeline)
    }
}

fn compile(
    device: &Device,
    kernel: &Kernel,
    source: String,
    writes: impl Iterator<Item = bool>,
) -> Result<Pipeline, TensorError> {
    let label = format!("{} {}", kernel.name, kernel.entry);
    let scopes = [ErrorFilter::Validation, ErrorFilter::Internal]
        .map(|filter| device.push_error_scope(filter));
    let entry = |binding: usize, ty: BufferBindingType| BindGroupLayoutEntry {
        binding: binding as u32,
        visibility: ShaderStages::COMPUTE,
        ty: BindingType::Buffer {
            ty,
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let mut entries = vec![entry(0, BufferBindingType::Uniform)];
    for (i, writes) in writes.enumerate() {
        entries.push(entry(
            i + 1,
            BufferBindingType::Storage { read_only: !writes },
        ));
    }
    let arguments = device.create_bind_group_layout(&BindGroupLayoutDescriptor {
        label: Some(&label),
        entries: &entries,
    });
    let layout = device.create_pipeline_layout(&PipelineLayoutDescriptor {
        label: Some(&label),
        bind_group_layouts: &[Some(&arguments)],
        immediate_size: 0,
    });
    let module = device.create_shader_module(ShaderModuleDescriptor {
        label: Some(&label),
        source: ShaderSource::Wgsl(source.into()),
    });
    let compiled = device.create_compute_pipeline(&ComputePipelineDescriptor {
        label: Some(&label),
        layout: Some(&layout),
        module: &module,
        entry_point: Some(kernel.entry),
        compilation_options: PipelineCompilationOptions {
            constants: &[],
            // Kernels write what they read.
            zero_initialize_workgroup_memory: false,
        },
        cache: None,
    });
    // Scopes are left in the order opposite to that in which they were entered.
    for scope in scopes.into_iter().rev() {
        if let Some(error) = ready(scope.pop()).flatten() {
            return Err(TensorError::Device(format!(
                "the kernel {label} does not compile on this device; use --device cpu ({error})"
            )));
        }
    }
    Ok(Pipeline {
        compiled,
        arguments,
    })
}
