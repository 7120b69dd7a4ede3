# Compiler settings shared by all targets, and the helpers that declare them.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

add_library(mantissa_flags INTERFACE)
target_include_directories(mantissa_flags INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_definitions(mantissa_flags INTERFACE MANTISSA_VERSION="${PROJECT_VERSION}")
# Contraction is off everywhere: an FMA is written where one is meant, so that results do not depend on the compiler's choice.
# No trapping math: GCC 12 does not vectorise rounding code with it (a factor of 12 measured). Never -ffast-math.
# -Wno-restrict: a false alarm of GCC 12 in std::string.
target_compile_options(mantissa_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-restrict -ffp-contract=off -fno-trapping-math -fno-math-errno>)
if(MANTISSA_WERROR)
  target_compile_options(mantissa_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
# The baseline stands in CMAKE_CXX_FLAGS, which come first on the command line, so that a file's own -march (below) wins.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  string(APPEND CMAKE_CXX_FLAGS " -march=x86-64-v2")
endif()
if(MANTISSA_SANITIZE)
  target_compile_options(mantissa_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MANTISSA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(mantissa_flags INTERFACE -fsanitize=${MANTISSA_SANITIZE})
endif()

# mantissa_isa_sources(TARGET FILES...): compiles each file once per instruction set, in the namespace that MANTISSA_ISA names:
#   sse (x86-64-v2), avx2 (x86-64-v3), avx512 (x86-64-v4), avx512bf16 (x86-64-v4 + AVX-512-BF16 + VBMI).
# These files define everything inside `namespace mantissa::kernels::MANTISSA_ISA` and call no non-inlined std:: template, so that
# no function built for a newer chip can be taken by the linker for the baseline (tests/kernels/isa_symbols checks it).
set(MANTISSA_ISA_FLAGS_sse -march=x86-64-v2)
set(MANTISSA_ISA_FLAGS_avx2 -march=x86-64-v3)
set(MANTISSA_ISA_FLAGS_avx512 -march=x86-64-v4)
set(MANTISSA_ISA_FLAGS_avx512bf16 -march=x86-64-v4 -mavx512bf16 -mavx512vbmi)
function(mantissa_isa_sources target)
  if(MANTISSA_SANITIZE MATCHES "undefined")
    # A check of every address of a vector kernel makes GCC six times slower and finds what AddressSanitizer finds anyway.
    # Options of a file come last, after -fsanitize.
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -fno-sanitize=null,alignment,object-size,pointer-overflow)
  endif()
  foreach(isa sse avx2 avx512 avx512bf16)
    set(objects "${target}_${isa}")
    if(NOT TARGET ${objects})
      add_library(${objects} OBJECT)
      target_link_libraries(${objects} PRIVATE mantissa_flags)
      # GCC 12 takes the undefined registers of its own intrinsics for uninitialised variables.
      target_compile_options(${objects} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${MANTISSA_ISA_FLAGS_${isa}}> -Wno-uninitialized -Wno-maybe-uninitialized)
      target_compile_definitions(${objects} PRIVATE MANTISSA_ISA=${isa} MANTISSA_ISA_${isa}=1)
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    endif()
    target_sources(${objects} PRIVATE ${ARGN})
  endforeach()
endfunction()
