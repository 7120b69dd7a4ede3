// Packing of operands: from any type and either orientation into panels of units (PackedForm). FP8 codes are decoded on
// the way, so no transposed copy of codes is ever needed. Compiled once per instruction set.
#pragma once

#include "kernels/matmul/matmul_kernels.h"

namespace mantissa::kernels::MANTISSA_ISA {

/// Units [firstUnit, lastUnit) of rows [firstRow, firstRow + rows) as panels of kMr or kNr rows:
/// out[panel][unit][width], panels `panelStride` floats apart. Rows beyond `rows` in the last panel are zero.
void packPanels(const PackSource& source, PackedForm form, int width, int64_t firstRow, int64_t rows, int64_t firstUnit,
                int64_t lastUnit, float* out, int64_t panelStride);

/// Units [firstUnit, lastUnit) of rows [firstRow, firstRow + rows), rows `rowStride` floats apart; `paddedRows` -
/// `rows` rows of zeros follow. Only for k-contiguous sources.
void packRows(const PackSource& source, PackedForm form, int64_t firstRow, int64_t rows, int64_t paddedRows,
              int64_t firstUnit, int64_t lastUnit, float* out, int64_t rowStride);

}  // namespace mantissa::kernels::MANTISSA_ISA
