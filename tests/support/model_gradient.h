// Backward of a small model against finite differences of its loss, parameter tensor by parameter tensor, in FP32, and
// mistakes that such a comparison has to see.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "engine/model/step_program.h"
#include "tests/support/engine_configs.h"
#include "tests/support/forwarding_backend.h"

namespace mantissa::test {

using namespace engine;

/// headWidth: 16 exists on the CPU alone.
inline TrainerConfig smallConfig(bool tied, int headWidth) {
    TrainerConfig config;
    config.model = {40, 2 * headWidth, 2, 2, 64, 8, tied};
    config.precision.mode = PrecisionMode::Fp32;
    config.batch = 2;
    config.accumulation = 2;  // so that adding up over micro-batches is covered
    return config;
}

/// Backward against differences of the loss. Losses are the reference's, in plain loops; backward runs on `device`
/// (nullptr: on the reference too).
class ModelGradient {
  public:
    explicit ModelGradient(bool tied, kernels::Backend* device = nullptr)
        : config_(smallConfig(tied, device ? 32 : 16)),
          inner_(kernels::createReferenceBackend()),
          backend_(device ? *device : *inner_),
          program_(config_, *inner_) {
        program_.allocate(*inner_);
        if (device) {
            other_ = std::make_unique<StepProgram>(config_, *device);
            other_->memoryPlan(*device, 0);
            other_->allocate(backend_);
        }
        const SyntheticTokens data(config_.model.vocabulary, config_.model.context);
        std::vector<int32_t> window(static_cast<size_t>(config_.model.context) + 1);
        for (int64_t i = 0; i < 2 * config_.batch; ++i) {
            data.trainWindow(i, window.data());
            tokens_.insert(tokens_.end(), window.begin(), window.end() - 1);
            targets_.insert(targets_.end(), window.begin() + 1, window.end());
        }
        // Start values so small hide terms: larger weights, norms away from 1 and 0.
        std::mt19937 random(7);
        std::normal_distribution<float> normal(0, 1);
        for (const ParameterInfo& tensor : program_.layout().tensors)
            for (int64_t i = 0; i < tensor.fileRows * tensor.cols; ++i)
                program_.parameters().masters[tensor.offset + i] += 0.15f * normal(random);
    }

    /// The one that backward runs on.
    ForwardingBackend& backend() { return backend_; }

    /// Largest difference between d loss / d direction by backward and by differences, relative to the larger of the
    /// two, over all tensors; `worst` names the tensor. Direction: the gradient itself plus as much random.
    double check(std::string& worst) {
        const std::vector<float> gradients = gradient();
        double largest = 0;
        std::mt19937 random(11);
        std::normal_distribution<float> normal(0, 1);
        for (const ParameterInfo& tensor : program_.layout().tensors) {
            const int64_t count = tensor.fileRows * tensor.cols;
            const float* g = gradients.data() + tensor.offset;
            double norm = 0;
            for (int64_t i = 0; i < count; ++i) norm += static_cast<double>(g[i]) * g[i];
            norm = std::sqrt(norm);
            std::vector<float> direction(static_cast<size_t>(count));
            double directionNorm = 0, byBackward = 0;
            for (int64_t i = 0; i < count; ++i) {
                const double value =
                    g[i] + 0.5 * std::max(norm, 1e-3) / std::sqrt(static_cast<double>(count)) * normal(random);
                direction[static_cast<size_t>(i)] = static_cast<float>(value);
                directionNorm += value * value;
            }
            directionNorm = std::sqrt(directionNorm);
            EXPECT_GT(directionNorm, 0) << tensor.name;
            for (int64_t i = 0; i < count; ++i) {
                direction[static_cast<size_t>(i)] /= static_cast<float>(directionNorm);
                byBackward += static_cast<double>(g[i]) * direction[static_cast<size_t>(i)];
            }
            const double byDifference = slope(tensor.offset, direction);
            const double error =
                std::abs(byBackward - byDifference) / std::max(std::abs(byBackward), std::abs(byDifference));
            if (error > largest) largest = error, worst = tensor.name;
        }
        return largest;
    }

  private:
    std::vector<float> gradient() {
        StepProgram& program = other_ ? *other_ : program_;
        const size_t bytes = static_cast<size_t>(program.layout().size) * sizeof(float);
        if (other_) backend_.upload(program.parameters().masters, program_.parameters().masters, bytes);
        kernels::StepParameters parameters;
        parameters.tokens = static_cast<uint32_t>(tokens_.size());
        program.setParameters(backend_, parameters);
        PassFlags flags;
        for (flags.micro = 0; flags.micro < 2; ++flags.micro) {
            flags.first = flags.micro == 0;
            const int64_t offset = flags.micro * program_.rows();
            program.trainPass(backend_, flags, tokens_.data() + offset, targets_.data() + offset);
        }
        std::vector<float> gradients(static_cast<size_t>(program.layout().size));
        backend_.download(gradients.data(), program.parameters().gradients, bytes);
        return gradients;
    }
    double loss() {
        for (int micro = 0; micro < 2; ++micro) {
            const int64_t offset = micro * program_.rows();
            program_.evalPass(*inner_, tokens_.data() + offset, targets_.data() + offset, program_.rows(), micro == 0);
        }
        return program_.evalSum(*inner_) / static_cast<double>(tokens_.size());
    }
    /// Central differences of fourth order: (8 (L(h) - L(-h)) - (L(2h) - L(-2h))) / 12h.
    double slope(int64_t offset, const std::vector<float>& direction) {
        constexpr double kStep = 0.01;
        float* values = program_.parameters().masters + offset;
        const std::vector<float> saved(values, values + direction.size());
        const auto at = [&](double distance) {
            for (size_t i = 0; i < direction.size(); ++i)
                values[i] = static_cast<float>(saved[i] + distance * direction[i]);
            return loss();
        };
        const double slope = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
        std::copy(saved.begin(), saved.end(), values);
        return slope;
    }

    TrainerConfig config_;
    std::unique_ptr<kernels::Backend> inner_;
    ForwardingBackend backend_;
    StepProgram program_;
    std::unique_ptr<StepProgram> other_;  ///< the device's
    std::vector<int32_t> tokens_, targets_;
};

inline constexpr double kGradientBound =
    2e-3;  // F32 losses: about 1e-7 of 4 over a step of 0.01 times slopes of 0.05 and more

struct Mistake {
    const char* name;
    std::function<void(ForwardingBackend&)> plant;
};
inline void PrintTo(const Mistake& m, std::ostream* out) {
    *out << m.name;
}

inline std::vector<Mistake> plantedMistakes() {
    using namespace kernels;
    return {Mistake{"micro_batches_do_not_add",
                    [](auto& b) { b.onNormBackward = [](NormBackward& op) { op.accumulate = false; }; }},
            Mistake{"residual_gradient_lost",
                    [](auto& b) { b.onNormBackward = [](NormBackward& op) { op.dResidualIn = nullptr; }; }},
            Mistake{"wgrad_reads_the_wrong_input",
                    [](auto& b) {
                        b.onMatmul = [](Matmul& op) {
                            if (op.gemm == Gemm::Wgrad && op.m == 64) op.b.data = op.a.data;
                        };
                    }},
            Mistake{"wgrads_do_not_add", [](auto& b) { b.onMatmul = [](Matmul& op) { op.accumulate = false; }; }},
            Mistake{"bias_gradient_of_activation_missing",
                    [](auto& b) { b.onActivationBackward = [](ActivationBackward& op) { op.dBias = nullptr; }; }},
            Mistake{"embedding_gradient_overwrites_positions",
                    [](auto& b) { b.onEmbeddingBackward = [](EmbeddingBackward& op) { op.accumulate = false; }; }},
            Mistake{"loss_gradient_sees_padding", [](auto& b) {
                        b.onCrossEntropy = [](CrossEntropy& op) {
                            if (op.backward) op.vocabulary = op.vocabularyPadded;
                        };
                    }}};
}

}  // namespace mantissa::test
