// Embeddings in plain loops.
#include <vector>

#include "kernels/device/reference_access.h"

namespace mantissa::kernels {

using reference::load;
using reference::store;

void runReference(const EmbeddingForward& op) {
    for (int64_t row = 0; row < op.batch * op.context; ++row)
        for (int64_t c = 0; c < op.cols; ++c) {
            const double token = load(op.type, op.tokenTable, op.tokens[row] * op.cols + c);
            const double position = load(op.type, op.positionTable, (row % op.context) * op.cols + c);
            store(op.type, op.out, row * op.cols + c, token + position);
        }
}

void runReference(const EmbeddingBackward& op) {
    std::vector<double> tokens(static_cast<size_t>(op.vocabulary * op.cols));
    std::vector<double> positions(static_cast<size_t>(op.context * op.cols));
    for (int64_t row = 0; row < op.batch * op.context; ++row)
        for (int64_t c = 0; c < op.cols; ++c) {
            const double value = load(op.type, op.dOut, row * op.cols + c);
            tokens[static_cast<size_t>(op.tokens[row] * op.cols + c)] += value;
            positions[static_cast<size_t>((row % op.context) * op.cols + c)] += value;
        }
    for (size_t i = 0; i < tokens.size(); ++i) op.dTokenTable[i] = static_cast<float>(op.dTokenTable[i] + tokens[i]);
    for (size_t i = 0; i < positions.size(); ++i)
        op.dPositionTable[i] = static_cast<float>((op.accumulate ? op.dPositionTable[i] : 0.0) + positions[i]);
}

}  // namespace mantissa::kernels
