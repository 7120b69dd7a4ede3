// Row-major D (m, n) = A B^T is column-major D^T (n, m) = B A^T: cuBLASLt's A is our b, its B is our a. An operand that
// is k contiguous is transposed (T) as cuBLASLt's A and plain (N) as its B. Rules of FP8 on sm_89 and sm_90: cuBLAS 13
// documentation, section 3: only TN, alignment of 16 bytes, not E5M2 x E5M2.
#include "kernels/matmul/matmul_cuda.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kernels/device/cuda/cuda_check.h"
#include "kernels/matmul/stored_choices.h"

namespace mantissa::kernels::cuda {

namespace {

/// What NVIDIA recommends for Hopper; the same on every chip, so that it never changes the choice.
constexpr size_t kLibraryWorkspace = size_t{32} << 20;
constexpr size_t kFactorBytes = 256;

cudaDataType_t libraryType(DType type) {
    switch (type) {
        case DType::F32:
            return CUDA_R_32F;
        case DType::BF16:
            return CUDA_R_16BF;
        case DType::F16:
            return CUDA_R_16F;
        case DType::E4M3:
            return CUDA_R_8F_E4M3;
        case DType::E5M2:
            return CUDA_R_8F_E5M2;
        default:
            throw Error(ErrorCode::ShapeMismatch, std::string("matmul: type ") + dtypeName(type) + " has no product");
    }
}

/// Largest power of two up to 256 that divides the address (and, for operands, the bytes between rows).
uint32_t alignmentOf(const void* pointer, int64_t strideBytes = 0) {
    const uint64_t bits = reinterpret_cast<uintptr_t>(pointer) | static_cast<uint64_t>(strideBytes) | 256u;
    return static_cast<uint32_t>(bits & (~bits + 1));
}

size_t roundUp(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/// The library adds a bias of BF16 to BF16 and F32, of F16 to F16, of F32 to F32 from F32.
bool epilogueTakesBias(const Matmul& op, DType operandType) {
    if (!op.bias) return false;
    if (op.biasType == op.outType && op.outType != DType::F32) return true;
    return op.outType == DType::F32 && op.biasType == DType::F32 && operandType == DType::F32;
}

/// The operand as the product reads it: transposed codes, where they are given, stand in for a storage that is not k
/// contiguous.
MatmulOperand readable(MatmulOperand operand, int64_t k) {
    if (operand.kContiguous || !operand.transposed) return operand;
    operand.data = operand.transposed;
    operand.kContiguous = true;
    operand.ld = k;
    return operand;
}

/// Elements that an operand's storage holds, padding of its leading dimension included.
int64_t storageElements(const MatmulOperand& operand, int64_t rows, int64_t k) {
    return (operand.kContiguous ? rows : k) * operand.ld;
}

}  // namespace

/// All that the choice of an algorithm depends on; compared as bytes, so it has no padding.
struct MatmulLibrary::Key {
    int64_t m = 0, n = 0, k = 0, ldLeft = 0, ldRight = 0, ldOut = 0;  ///< left: cuBLASLt's A
    int32_t left = 0, right = 0, out = 0, bias = -1;
    uint32_t alignLeft = 256, alignRight = 256, alignOut = 256;
    uint8_t transLeft = 1, transRight = 0, tf32 = 0, fast = 0;
    uint8_t deviceFactors = 0, accumulate = 0, scaled = 0;
    uint8_t blocksLeft = 0, blocksRight = 0;  ///< 0: no block scales, 1: 1 x 128, 2: 128 x 128
    uint8_t reserved[3] = {};
};

/// What changes from call to call under one plan.
struct MatmulLibrary::Pointers {
    const float* scaleLeft;
    const float* scaleRight;
    const void* bias;
};

struct MatmulLibrary::Plan {
    const CublasLtApi& api;
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t left = nullptr, right = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    const char* name = "";

    explicit Plan(const CublasLtApi& library) : api(library) {}
    ~Plan() {
        if (out) api.MatrixLayoutDestroy(out);
        if (right) api.MatrixLayoutDestroy(right);
        if (left) api.MatrixLayoutDestroy(left);
        if (desc) api.MatmulDescDestroy(desc);
    }
    void check(cublasStatus_t status, const char* what) const {
        if (status == CUBLAS_STATUS_SUCCESS) return;
        throw Error(ErrorCode::DeviceFailure, std::string("cuBLASLt: ") + api.GetStatusString(status) + " in " + what);
    }
    template <class Value>
    void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
        check(api.MatmulDescSetAttribute(desc, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
    }
    void point(const Pointers& pointers) const {
        if (pointers.scaleLeft) set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, pointers.scaleLeft);
        if (pointers.scaleRight) set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, pointers.scaleRight);
        if (pointers.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias);
    }
};

namespace {

uint8_t blocksOf(const MatmulOperand& operand) {
    return operand.blockScaleInv ? operand.squareBlocks ? 2 : 1 : 0;
}

cublasLtMatmulMatrixScale_t scaleModeOf(uint8_t blocks) {
    return blocks == 2 ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
}

}  // namespace

MatmulLibrary::Key MatmulLibrary::keyOf(const Matmul& op, const MatmulOperand& left, const MatmulOperand& right,
                                        bool scaled) {
    Key key;
    std::memset(static_cast<void*>(&key), 0, sizeof key);
    key.m = op.m, key.n = op.n, key.k = op.k;
    key.ldLeft = left.ld, key.ldRight = right.ld, key.ldOut = op.ldOut;
    key.left = libraryType(left.type), key.right = libraryType(right.type), key.out = libraryType(op.outType);
    key.bias = epilogueTakesBias(op, left.type) ? static_cast<int32_t>(libraryType(op.biasType)) : -1;
    key.alignLeft = alignmentOf(left.data, left.ld * static_cast<int64_t>(dtypeSize(left.type)));
    key.alignRight = alignmentOf(right.data, right.ld * static_cast<int64_t>(dtypeSize(right.type)));
    key.alignOut = alignmentOf(op.out, op.ldOut * static_cast<int64_t>(dtypeSize(op.outType)));
    key.transLeft = left.kContiguous, key.transRight = !right.kContiguous;
    key.tf32 = op.tf32 && left.type == DType::F32;
    key.blocksLeft = blocksOf(left), key.blocksRight = blocksOf(right);
    key.fast = scaled && op.fastAccumulate && !key.blocksLeft;  // with block scales the library promotes by itself
    key.deviceFactors = !scaled && (isFp8(op.a.type) || op.a.scaleInv || op.b.scaleInv);
    key.accumulate = op.accumulate, key.scaled = scaled;
    return key;
}

MatmulLibrary::Pointers MatmulLibrary::pointersOf(const Matmul& op, const MatmulOperand& left,
                                                  const MatmulOperand& right, const Key& key) {
    const auto scale = [&](const MatmulOperand& operand) {
        return operand.blockScaleInv ? operand.blockScaleInv : key.scaled ? operand.scaleInv : nullptr;
    };
    return {scale(left), scale(right), key.bias >= 0 ? op.bias : nullptr};
}

MatmulLibrary::MatmulLibrary(const CublasLtApi& api, int capability) : api_(api), capability_(capability) {
    const char* wish = std::getenv("MANTISSA_MATMUL");
    storedChoices_ = !wish || std::string(wish) != "first";
    const cublasStatus_t status = api_.Create(&handle_);
    if (status != CUBLAS_STATUS_SUCCESS) {
        throw Error(ErrorCode::DeviceFailure,
                    std::string("cuBLASLt: ") + api_.GetStatusString(status) + " in cublasLtCreate");
    }
}

MatmulLibrary::~MatmulLibrary() {
    plans_.clear();
    api_.Destroy(handle_);
}

bool MatmulLibrary::runsNativeFp8(const Matmul& op) const {
    if (!isFp8(op.a.type) || capability_ < 89) return false;
    if (op.a.type == DType::E5M2 && op.b.type == DType::E5M2) return false;
    const int64_t outBytes = static_cast<int64_t>(dtypeSize(op.outType));
    return op.k % 16 == 0 && op.n * outBytes % 16 == 0 && op.ldOut * outBytes % 16 == 0 &&
           (!op.a.kContiguous || op.a.ld % 16 == 0) && (!op.b.kContiguous || op.b.ld % 16 == 0) &&
           (op.a.blockScaleInv ? capability_ == 90 && op.m % 4 == 0 : op.a.scaleInv && op.b.scaleInv);
}

size_t MatmulLibrary::workspaceBytes(const Matmul& op) const {
    size_t bytes = kLibraryWorkspace;
    const MatmulOperand a = readable(op.a, op.k), b = readable(op.b, op.k);
    if (runsNativeFp8(op)) {
        if (!a.kContiguous) bytes += roundUp(static_cast<size_t>(op.m * op.k));
        if (!b.kContiguous) bytes += roundUp(static_cast<size_t>(op.n * op.k));
    }
    if (isFp8(op.a.type) && !runsNativeFp8(op)) {
        bytes += kFactorBytes + roundUp(static_cast<size_t>(storageElements(a, op.m, op.k)) * 2) +
                 roundUp(static_cast<size_t>(storageElements(b, op.n, op.k)) * 2);
    }
    if (!isFp8(op.a.type) && (op.a.scaleInv || op.b.scaleInv)) bytes += kFactorBytes;
    return bytes;
}

uint32_t MatmulLibrary::attribute(const cublasLtMatmulAlgo_t& algorithm,
                                  cublasLtMatmulAlgoConfigAttributes_t which) const {
    uint32_t value = 0;
    size_t written = 0;
    api_.MatmulAlgoConfigGetAttribute(&algorithm, which, &value, sizeof value, &written);
    return value;
}

int MatmulLibrary::choose(const cublasLtMatmulHeuristicResult_t* results, int count, const Matmul& op) const {
    const auto valid = [&](int i) { return results[i].state == CUBLAS_STATUS_SUCCESS; };
    if (const StoredChoice* stored = storedChoices_ ? storedChoice(op, api_.GetVersion(), capability_) : nullptr) {
        for (int i = 0; i < count; ++i)
            if (valid(i) && attribute(results[i].algo, CUBLASLT_ALGO_CONFIG_TILE_ID) == stored->tile &&
                attribute(results[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) == stored->splitK)
                return i;
    }
    int chosen = 0;
    while (chosen < count && !valid(chosen)) ++chosen;
    return chosen;
}

const char* MatmulLibrary::describe(const cublasLtMatmulAlgo_t& algorithm, int rank, const Key& key) {
    const auto text = [&](cublasLtMatmulAlgoConfigAttributes_t which) {
        return std::to_string(attribute(algorithm, which));
    };
    const size_t version = api_.GetVersion();
    const std::string name =
        "cublasLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
        std::to_string(version % 100) + " #" + std::to_string(rank) + " id " + text(CUBLASLT_ALGO_CONFIG_ID) +
        " tile " + text(CUBLASLT_ALGO_CONFIG_TILE_ID) + " stages " + text(CUBLASLT_ALGO_CONFIG_STAGES_ID) + " splitK " +
        text(CUBLASLT_ALGO_CONFIG_SPLITK_NUM) + (key.blocksLeft ? ", block scales, promoted sums" : "");
    return names_.insert(name).first->c_str();
}

const char* MatmulLibrary::because(const char* name, const char* reason) {
    return names_.insert(std::string(name) + " (emulated: " + reason + ")").first->c_str();
}

const MatmulLibrary::Plan& MatmulLibrary::plan(const Key& key, const Pointers& pointers, const Matmul& op) {
    std::string bytes(reinterpret_cast<const char*>(&key), sizeof key);
    const auto found = plans_.find(bytes);
    if (found != plans_.end()) return *found->second;

    auto made = std::make_unique<Plan>(api_);
    const auto type = [](int32_t value) { return static_cast<cudaDataType_t>(value); };
    const cublasComputeType_t compute = key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    made->check(api_.MatmulDescCreate(&made->desc, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    made->set(CUBLASLT_MATMUL_DESC_TRANSA, key.transLeft ? CUBLAS_OP_T : CUBLAS_OP_N);
    made->set(CUBLASLT_MATMUL_DESC_TRANSB, key.transRight ? CUBLAS_OP_T : CUBLAS_OP_N);
    made->set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(key.fast));
    if (key.blocksLeft) {
        made->set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scaleModeOf(key.blocksLeft));
        made->set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scaleModeOf(key.blocksRight));
    }
    if (key.deviceFactors) made->set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
    if (key.bias >= 0) {
        made->set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        made->set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, key.bias);
    }
    made->point(pointers);
    const auto layout = [&](cublasLtMatrixLayout_t* out, int32_t which, int64_t rows, int64_t cols, int64_t ld) {
        made->check(
            api_.MatrixLayoutCreate(out, type(which), static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), ld),
            "cublasLtMatrixLayoutCreate");
    };
    layout(&made->left, key.left, key.transLeft ? key.k : key.n, key.transLeft ? key.n : key.k, key.ldLeft);
    layout(&made->right, key.right, key.transRight ? key.m : key.k, key.transRight ? key.k : key.m, key.ldRight);
    layout(&made->out, key.out, key.n, key.m, key.ldOut);

    cublasLtMatmulPreference_t preference = nullptr;
    made->check(api_.MatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
        api_.MatmulPreferenceSetAttribute(preference, which, &value, sizeof value);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kLibraryWorkspace));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignLeft);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignRight);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignOut);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignOut);
    constexpr int kAsked = 8;
    cublasLtMatmulHeuristicResult_t results[kAsked];
    int count = 0;
    const cublasStatus_t status = api_.MatmulAlgoGetHeuristic(handle_, made->desc, made->left, made->right, made->out,
                                                              made->out, preference, kAsked, results, &count);
    api_.MatmulPreferenceDestroy(preference);
    const int chosen = choose(results, count, op);
    if (status != CUBLAS_STATUS_SUCCESS || chosen >= count) {
        throw Error(
            ErrorCode::DeviceFailure,
            "cuBLASLt has no algorithm for a product of m " + std::to_string(key.m) + ", n " + std::to_string(key.n) +
                ", k " + std::to_string(key.k) + (key.blocksLeft ? " with block scales" : "") + " (types " +
                std::to_string(key.right) + " x " + std::to_string(key.left) + " to " + std::to_string(key.out) +
                "): " + api_.GetStatusString(status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status));
    }
    made->algorithm = results[chosen].algo;
    made->name = describe(made->algorithm, chosen, key);
    return *plans_.emplace(std::move(bytes), std::move(made)).first->second;
}

MatmulReport MatmulLibrary::run(const LaunchContext& context, const Matmul& op) {
    checkMatmul(op);
    if (op.m == 0 || op.n == 0) return {reportedType(op.a), reportedType(op.b), op.outType, true, "empty"};
    if (op.k == 0) {
        emptyProduct(context, op.out, op.outType, op.m, op.n, op.ldOut, op.bias, op.biasType, op.accumulate);
        return {reportedType(op.a), reportedType(op.b), op.outType, true, "empty"};
    }
    const bool fp8 = isFp8(op.a.type), native = fp8 ? runsNativeFp8(op) : op.a.emulates == DType::None;
    if (op.a.blockScaleInv && !native) throw Error(ErrorCode::ShapeMismatch, "matmul: " + whyNoBlockCodes(op));
    char* scratch = static_cast<char*>(context.scratch(workspaceBytes(op), "matmul"));
    float* factors = nullptr;
    MatmulOperand left = readable(op.b, op.k), right = readable(op.a, op.k);
    if (fp8 && native) {
        char* place = scratch + kLibraryWorkspace;
        const auto toKContiguous = [&](MatmulOperand& operand, int64_t rows) {
            if (operand.kContiguous) return;
            transposeCodes(context, static_cast<const uint8_t*>(operand.data), op.k, rows, operand.ld, place);
            operand.data = place;
            operand.kContiguous = true;
            operand.ld = op.k;
            place += roundUp(static_cast<size_t>(rows * op.k));
        };
        toKContiguous(right, op.m);
        toKContiguous(left, op.n);
    } else if (!fp8 && (op.a.scaleInv || op.b.scaleInv)) {
        factors = reinterpret_cast<float*>(scratch + kLibraryWorkspace);
        productFactors(context, op.a.scaleInv, op.b.scaleInv, op.accumulate ? 1.0f : 0.0f, factors);
    } else if (fp8) {
        // Emulated: a code decodes to BF16 without loss; the scales go into alpha.
        factors = reinterpret_cast<float*>(scratch + kLibraryWorkspace);
        char* place = scratch + kLibraryWorkspace + kFactorBytes;
        productFactors(context, op.a.scaleInv, op.b.scaleInv, op.accumulate ? 1.0f : 0.0f, factors);
        const auto decode = [&](MatmulOperand& operand, int64_t rows) {
            const int64_t count = storageElements(operand, rows, op.k);
            decodeToBf16(context, static_cast<const uint8_t*>(operand.data), operand.type, count, place);
            operand.data = place;
            operand.type = DType::BF16;
            place += roundUp(static_cast<size_t>(count) * 2);
        };
        decode(right, op.m);
        decode(left, op.n);
    }

    const Key key = keyOf(op, left, right, fp8 && native);
    const Pointers pointers = pointersOf(op, left, right, key);
    const Plan& chosen = plan(key, pointers, op);
    chosen.point(pointers);
    const float one = 1, beta = op.accumulate ? 1.0f : 0.0f;
    chosen.check(api_.Matmul(handle_, chosen.desc, factors ? factors : &one, left.data, chosen.left, right.data,
                             chosen.right, factors ? factors + 1 : &beta, op.out, chosen.out, op.out, chosen.out,
                             &chosen.algorithm, scratch, kLibraryWorkspace, context.stream),
                 "cublasLtMatmul");
    if (op.bias && key.bias < 0) addBias(context, op.out, op.outType, op.m, op.n, op.ldOut, op.bias, op.biasType);
    const char* name = native || !op.emulatedBecause ? chosen.name : because(chosen.name, op.emulatedBecause);
    return {reportedType(op.a), reportedType(op.b), op.outType, native, name};
}

std::string MatmulLibrary::whyNoBlockCodes(const Matmul& op) {
    if (capability_ != 90)
        return "compute capability " + std::to_string(capability_ / 10) + "." + std::to_string(capability_ % 10) +
               " has no products with one scale for 1x128 values through cuBLASLt (9.0 has them)";
    if (!runsNativeFp8(op))
        return "a product of " + std::to_string(op.m) + " x " + std::to_string(op.n) + " over " + std::to_string(op.k) +
               ": k must be a multiple of 16, rows of the result a multiple of 16 bytes, its "
               "number of rows a multiple of 4";
    const MatmulOperand left = readable(op.b, op.k), right = readable(op.a, op.k);
    const Key key = keyOf(op, left, right, true);
    try {
        plan(key, pointersOf(op, left, right, key), op);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace mantissa::kernels::cuda
