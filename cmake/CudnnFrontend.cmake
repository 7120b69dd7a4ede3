# Where FetchCudnnFrontend.cmake puts the headers and kernels/device/cuda/sources.cmake looks for them.
get_filename_component(MANTISSA_CUDNN_FRONTEND_FOLDER "${CMAKE_CURRENT_LIST_DIR}/../build/deps/cudnn-frontend-1.32.0" ABSOLUTE)
