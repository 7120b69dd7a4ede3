// Backward of the whole model against finite differences of its loss, parameter tensor by parameter tensor, in FP32;
// planted mistakes must be seen. Ops have such tests of their own (tests/kernels); here the question is how the model
// puts them together.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/model/step_program.h"
#include "tests/support/engine_configs.h"
#include "tests/support/forwarding_backend.h"

namespace mantissa::engine {
namespace {

TrainerConfig smallConfig(bool tied) {
    TrainerConfig config;
    config.model = {40, 32, 2, 2, 64, 8, tied};
    config.precision.mode = PrecisionMode::Fp32;
    config.batch = 2;
    config.accumulation = 2;  // so that adding up over micro-batches is covered
    return config;
}

class ModelGradient {
  public:
    explicit ModelGradient(bool tied)
        : config_(smallConfig(tied)), inner_(kernels::createReferenceBackend()), backend_(*inner_), program_(config_) {
        program_.allocate(backend_);
        const test::SyntheticTokens data(config_.model.vocabulary, config_.model.context);
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

    test::ForwardingBackend& backend() { return backend_; }

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
        kernels::StepParameters parameters;
        parameters.tokens = static_cast<uint32_t>(tokens_.size());
        program_.setParameters(backend_, parameters);
        PassFlags flags;
        for (flags.micro = 0; flags.micro < 2; ++flags.micro) {
            flags.first = flags.micro == 0;
            const int64_t offset = flags.micro * program_.rows();
            program_.trainPass(backend_, flags, tokens_.data() + offset, targets_.data() + offset);
        }
        const float* g = program_.parameters().gradients;
        return {g, g + program_.layout().size};
    }
    double loss() {
        for (int micro = 0; micro < 2; ++micro) {
            const int64_t offset = micro * program_.rows();
            program_.evalPass(backend_, tokens_.data() + offset, targets_.data() + offset, program_.rows(), micro == 0);
        }
        return program_.evalSum(backend_) / static_cast<double>(tokens_.size());
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
    test::ForwardingBackend backend_;
    StepProgram program_;
    std::vector<int32_t> tokens_, targets_;
};

constexpr double kBound = 2e-3;  // F32 losses: about 1e-7 of 4 over a step of 0.01 times slopes of 0.05 and more

TEST(Gradient, TiedHeadAgreesWithDifferences) {
    std::string worst;
    ModelGradient model(true);
    const double error = model.check(worst);
    EXPECT_LT(error, kBound) << worst;
}

TEST(Gradient, UntiedHeadAgreesWithDifferences) {
    std::string worst;
    ModelGradient model(false);
    const double error = model.check(worst);
    EXPECT_LT(error, kBound) << worst;
}

struct Mistake {
    const char* name;
    std::function<void(test::ForwardingBackend&)> plant;
};
void PrintTo(const Mistake& m, std::ostream* out) {
    *out << m.name;
}

class PlantedMistake : public testing::TestWithParam<Mistake> {};

TEST_P(PlantedMistake, IsSeen) {
    std::string worst;
    ModelGradient model(true);
    GetParam().plant(model.backend());
    EXPECT_GT(model.check(worst), 5 * kBound);
}

using namespace kernels;
INSTANTIATE_TEST_SUITE_P(
    Gradient, PlantedMistake,
    testing::Values(
        Mistake{"micro_batches_do_not_add",
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
                [](auto& b) {
                    static float elsewhere[64];
                    b.onActivationBackward = [](ActivationBackward& op) { op.dBias = elsewhere; };
                }},
        Mistake{"embedding_gradient_overwrites_positions",
                [](auto& b) { b.onEmbeddingBackward = [](EmbeddingBackward& op) { op.accumulate = false; }; }},
        Mistake{"loss_gradient_sees_padding",
                [](auto& b) {
                    b.onCrossEntropy = [](CrossEntropy& op) {
                        if (op.backward) op.vocabulary = op.vocabularyPadded;
                    };
                }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mantissa::engine
