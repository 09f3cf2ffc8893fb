"""Words that say nothing about who owns a machine: what a scrubbed name may keep.

Names of programs that hold GPUs, parts of systemd's and the container engines' names, and the options of inference
servers. To these come, for one record, the words that the kernel itself has written into it.
"""

_TEXT = """
    a an and any all as at by for from in is it no not none null of off on or out per the to true false unknown yes
    n e m o x be filled default string amd ati gpu gpus cpu cpus igpu dgpu instinct radeon pro graphics series rocm
    hip cuda kfd drm dri renderd card amdgpu vram gtt hbm mem memory smi slice service scope socket mount swap
    target device system user session init app machine background dbus tmp dev run proc sys etc usr bin lib opt var
    home srv data mnt libexec sbin local docker dockerd containerd cri crio libpod podman conmon lxc lxd payload
    monitor kubepods kubelet besteffort burstable guaranteed pod slurm slurmd slurmstepd step task job uid apptainer
    singularity enroot buildah nspawn actions shim tmux screen ssh sshd bash sh zsh fish dash login systemd sudo su
    cron crond atd timer getty python perl ruby node java julia go rust r ld linux so py pyc pt main thread threads
    worker workers engine core enginecor enginecore process pool executor server serve serving client api router
    proxy scheduler schedul detokenizer detoken tokenizer manager launcher launch loader resource tracker vllm
    sglang sgl ollama llama llm lm tgi text generation inference tritonserver triton ray raylet gcs dashboard agent
    rayworker rayworkerwrapper wrapper lmdeploy mlc aphrodite exllama exllamav koboldcpp tabby localai vox
    xinference comfyui stable diffusion webui whisper torch torchrun torchserve tensorflow jax onnx migraphx
    deepspeed megatron accelerate transformers huggingface hf mpi mpirun mpiexec orted prted srun pmix rccl ucx rank
    amdsmi rocminfo rocprof rocprofv rocgdb rdcd rdc gpuagent nvtop radeontop btop htop top lact lactd rw sensors
    processes record rocmwatch xorg xwayland gnome shell kwin wayland plasma plasmashell mutter hyprland sway weston
    compositor firefox chrome chromium electron code blender steam mpv ffmpeg obs model models dtype quantization
    max min len length seqs num batch batched tokens token parallel size tensor pipeline expert distributed backend
    port host utilization fraction space block cache prefix caching enable disable enforce eager chunked prefill
    trust remote revision tp pp dp ep ctx context np ngl layers flash attn kv offload mmap mlock embedding
    embeddings reranking tool call choice parser chat template served name seed log level requests limit timeout ssl
    key keys cert certs file config load format auto gguf safetensors reasoning speculative draft multimodal mm lora
    adapter adapters adapterload guided decoding async scheduling steps metrics verbose debug quiet version help
    daemon foreground workdir devices numa bind compilation mode c hybrid
    cpuacct cpuset blkio io freezer net cls prio perf event hugetlb pids rdma misc
"""

WORDS = frozenset(_TEXT.split())

# First arguments, and others that stand alone: known as a whole.
ARGUMENTS = frozenset({b"serve", b"runner", b"run", b"start", b"-m", b"-c", b"-u", b"-s", b"vllm", b"sglang"})
