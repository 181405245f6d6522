"""Ray, JAX, vLLM, SGLang, DeepSpeed, Accelerate."""
