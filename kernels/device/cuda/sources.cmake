# The CUDA backend's sources, or what stands in for it in a build without CUDA. Included by kernels/CMakeLists.txt.
if(MANTISSA_HAVE_CUDA)
  find_package(CUDAToolkit REQUIRED)
  target_sources(mantissa_kernels PRIVATE
    device/cuda/cuda_backend.cpp
    device/cuda/cuda_check.cpp
    device/cuda/cuda_probe.cpp
    device/cuda/cuda_recording.cpp
    device/cuda/cublaslt_cuda_api.cpp
    device/cuda/library.cpp
    device/cuda/cast_common.cu
    device/cuda/trivial_kernel.cu
    matmul/matmul_cuda.cpp
    matmul/product_helpers.cu
    numerics/numerics.cu
    numerics/shadow_product.cu
    quantize/block_codes.cu
    quantize/block_quantize.cu
    quantize/quantize.cu
    scaling/scaling.cu
    norm/norm_forward.cu
    norm/norm_backward.cu
    norm/norm_passes.cu
    activation/activation.cu
    attention/attention_forward.cu
    attention/attention_backward.cu
    attention/attention_cudnn.cpp
    attention/attention_f32.cu
    embedding/embedding.cu
    loss/cross_entropy.cu
    optimizer/adamw.cu
    optimizer/adamw_passes.cu
    optimizer/step_control.cu
  )
  # cuDNN's attention is built in where cudnn-frontend's headers (scripts/install-dependencies.sh fetches them) and cudnn.h
  # are found; libcudnn is opened at run time.
  include(CudnnFrontend)
  find_path(MANTISSA_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS "${MANTISSA_CUDNN_FRONTEND_FOLDER}/include"
    DOC "Folder of cudnn-frontend's headers, for cuDNN's attention")
  file(GLOB wheels "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cudnn/include"
    "$ENV{CONDA_PREFIX}/lib/python3*/site-packages/nvidia/cudnn/include")
  find_path(MANTISSA_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${wheels} DOC "Folder of cudnn.h")
  if(MANTISSA_CUDNN_FRONTEND_INCLUDE AND MANTISSA_CUDNN_INCLUDE)
    set_source_files_properties(attention/attention_cudnn.cpp PROPERTIES
      COMPILE_OPTIONS -O1  # host code of the frontend alone: a minute less to compile
      COMPILE_DEFINITIONS MANTISSA_HAVE_CUDNN_FRONTEND
      INCLUDE_DIRECTORIES "${MANTISSA_CUDNN_FRONTEND_INCLUDE};${MANTISSA_CUDNN_INCLUDE}")
    message(STATUS "Attention: own kernels, and cuDNN's through ${MANTISSA_CUDNN_FRONTEND_INCLUDE}")
  else()
    set(lacking "cudnn.h of cuDNN 9 was not found (MANTISSA_CUDNN_INCLUDE names its folder)")
    if(NOT MANTISSA_CUDNN_FRONTEND_INCLUDE)
      set(lacking "cudnn-frontend's headers were not found (cmake -P cmake/FetchCudnnFrontend.cmake fetches them)")
    endif()
    set_source_files_properties(attention/attention_cudnn.cpp PROPERTIES COMPILE_DEFINITIONS "MANTISSA_CUDNN_LACKING=\"${lacking}\"")
    message(STATUS "Attention: own kernels (${lacking})")
  endif()
  # Linked statically; libcuda, cuBLASLt and NVML are opened at run time, so the programs need none of them to start.
  target_link_libraries(mantissa_kernels PRIVATE CUDA::cudart_static)
  # relaxed-constexpr: number formats and Philox are constexpr functions shared with the host. No contraction beyond what
  # is written would cost products nothing, but casts must not depend on it: their multiplications are __fmul_rn.
  target_compile_options(mantissa_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --extended-lambda
    -Xcompiler=-Wall,-Wextra>)
else()
  target_sources(mantissa_kernels PRIVATE device/probe_cuda.cpp device/cuda/cuda_absent.cpp)
endif()
