// SPDX-License-Identifier: Apache-2.0

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/p2pdma_needs.h"
#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

class HelpTest : public Tool {
 protected:
  std::string told(const std::string& word) {
    const Finished done = run({"help", word});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.out;
  }
};

TEST_F(HelpTest, AReasonIsExplainedWithWhatToDo) {
  const std::string text = told("stand_in");
  EXPECT_EQ(text.find("stand_in (a reason): the device is host memory standing in for a GPU\n"), 0u) << text;
  EXPECT_NE(text.find("-> Run 'penstock check'"), std::string::npos) << text;
}

TEST_F(HelpTest, APathAVariableAndErrorsAreExplained) {
  EXPECT_EQ(told("bounce").find("bounce (a path): storage to pinned host memory"), 0u);
  EXPECT_EQ(told("PENSTOCK_POLICY").find("policy = "), 0u);
  EXPECT_EQ(told("properties.allow_compat_mode").find("properties.allow_compat_mode = "), 0u);
  const std::string error = told("5011");
  EXPECT_EQ(error.find("CU_FILE_CUDA_DRIVER_ERROR (5011, an error of cuFile): CUDA Driver API error\n"), 0u) << error;
  EXPECT_EQ(told("CU_FILE_CUDA_DRIVER_ERROR"), error);
  EXPECT_EQ(told("ENOSPC").find("ENOSPC (28, an error of the system): No space left on device\n"), 0u);
  EXPECT_EQ(told("28"), told("ENOSPC"));
}

TEST_F(HelpTest, AWordOfTheToolsIsExplained) {
  EXPECT_EQ(told("binds").find("binds: to be the slowest part of the way"), 0u);
  EXPECT_EQ(told("page cache").find("page cache: the kernel's copy of files"), 0u);
  EXPECT_EQ(told("host_bridge").find("host_bridge: both devices"), 0u);
  EXPECT_EQ(told("page-cache"), told("page cache"));
}

TEST_F(HelpTest, WordsThatOthersHaveForTheSameAreKnown) {
  EXPECT_EQ(told("compatibility"), told("compat"));
  for (const char* word : {"gds", "GDS", "gpudirect", "GPUDirect"}) EXPECT_EQ(told(word), told("direct")) << word;
  EXPECT_EQ(told("CUFILE_ENV_PATH_JSON"), told("cufile.json"));
}

TEST_F(HelpTest, WordsThatPeopleAskWithAreAnsweredWithACommand) {
  for (const char* word : {"pytorch", "torch", "container", "bottleneck", "bandwidth", "cuFileRead", "nvidia-fs",
                           "price", "compare", "machines", "bounce buffer", "cufile.log"}) {
    EXPECT_NE(told(word), "") << word;
  }
}

TEST_F(HelpTest, AnErrorOfCufileIsToldWithItsCauseAndItsRemedy) {
  for (const char* number : {"5001", "5011", "5008", "5034"}) {
    EXPECT_NE(told(number).find("\n  -> "), std::string::npos) << told(number);
  }
}

TEST_F(HelpTest, CufileJsonIsToldWithThePlacesWhereItIsLookedFor) {
  const std::string text = told("cufile.json");
  std::size_t at = 0;
  for (const char* part : {"'penstock settings' shows", "\n  1. the file that CUFILE_ENV_PATH_JSON", "\n  2. ", "$PWD",
                           "\n  3. ", "/etc/cufile.json"}) {
    at = text.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in " << text;
  }
}

TEST_F(HelpTest, WhatProvesAPathIsToldWithItsExitCodesAndItsLimit) {
  const std::string text = told("prove");
  for (const char* part : {"ends with 0 if", "with 1 if", "with 77 if", "read(2)", "'penstock run --report'"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST_F(HelpTest, ALineOfALogIsAnsweredWithTheReasonInIt) {
  const std::string reason = told("iommu_translating");
  EXPECT_EQ(run({"help", "p2pdma", "refused:", "iommu_translating"}).out, reason);
  EXPECT_EQ(told("p2pdma refused: iommu_translating"), reason);
  EXPECT_EQ(run({"help", "page", "cache"}).out, told("page cache"));
  EXPECT_EQ(run({"help", "nothing", "known"}).exit_code, 2);
}

TEST_F(HelpTest, AQuestionIsAnsweredWithTheEntryThatFitsClearlyBest) {
  const std::pair<const char*, const char*> questions[] = {{"why is my checkpoint slow", "save: "},
                                                           {"How do I save checkpoints faster?", "save: "},
                                                           {"which GPU should read from which drive", "nvme: "},
                                                           {"run in docker please", "container: "},
                                                           {"does it work with PyTorch", "pytorch: "},
                                                           {"is my data going directly to the GPU", "direct: "},
                                                           {"what do I gain", "cost: "},
                                                           {"is my machine right", "check (a command): "},
                                                           {"how many drives do I need", "predict: "},
                                                           {"run vllm", "run (a command): "},
                                                           {"locked memory", "locked_memory (a row of check): "},
                                                           {"how do I bench a new array", "bench (a command): "},
                                                           {"bindss", "binds: "}};
  for (const auto& [question, beginning] : questions) {
    std::vector<std::string> words = {"help"};
    std::istringstream text(question);
    for (std::string word; text >> word;) words.push_back(word);
    EXPECT_EQ(run(words).out.find(beginning), 0u) << run(words).out << run(words).err;
  }
}

TEST_F(HelpTest, AQuestionThatSeveralEntriesFitIsRefusedWithTheirNames) {
  const Finished alike = run({"help", "kubernetes", "pod"});
  EXPECT_EQ(alike.exit_code, 2);
  EXPECT_NE(alike.err.find("; did you mean 'kubernetes' or 'pod'?\n"), std::string::npos) << alike.err;
  EXPECT_NE(run({"help", "p2p"}).err.find("did you mean 'p2pdma', 'kernel_p2pdma', 'kernel_no_p2pdma'?"),
            std::string::npos)
      << "each name is proposed once: " << run({"help", "p2p"}).err;
}

TEST_F(HelpTest, AConstantOfTheModelsIsExplainedWithItsRange) {
  const std::string share = told("drive.share");
  EXPECT_EQ(share.find("drive.share (a constant of penstock-model): 0.6 (0.4 to 0.6), published: real use"), 0u)
      << share;
  EXPECT_NE(share.find("--set drive.share=VALUE"), std::string::npos) << share;
  EXPECT_EQ(told("pcie.storage_server").find("pcie.storage_server (a constant of penstock-model): 50 GB/s, "), 0u);
}

TEST_F(HelpTest, APipeHasEveryListWhole) {
  for (const char* list : {"words", "paths", "reasons", "rows"}) {
    EXPECT_EQ(told(list).find("...\n"), std::string::npos) << told(list);
  }
  EXPECT_NE(told("reasons").find(" so preadv2 and pwritev2 stand in"), std::string::npos) << told("reasons");
}

TEST_F(HelpTest, APathSaysWhatItNeeds) {
  EXPECT_NE(told("p2pdma").find("It needs an NVMe drive"), std::string::npos) << told("p2pdma");
  EXPECT_EQ(told("P2PDMA"), told("p2pdma"));
  for (const std::string& version : {text_of(core::kP2pdmaKernel), text_of(core::kP2pdmaDriverOfNewPages)}) {
    EXPECT_NE(told("p2pdma").find(version + " or later"), std::string::npos) << told("p2pdma");
  }
  EXPECT_NE(told("nvfs").find("a storage driver that has registered"), std::string::npos) << told("nvfs");
}

TEST_F(HelpTest, WhatPeopleAskIsAnsweredWithACommand) {
  const std::pair<const char*, const char*> answers[] = {{"fast", "bench --every-path"},
                                                         {"slow", "explain --measure"},
                                                         {"save", "Begin with penstock.checkpoint.Saver"},
                                                         {"fallback", "run --report"},
                                                         {"pod", "penstock-k8s verify"},
                                                         {"kubernetes", "penstock-k8s"},
                                                         {"root", "penstock check"},
                                                         {"rootless", "penstock check"},
                                                         {"monitor", "penstock serve"},
                                                         {"alert", "penstock serve"},
                                                         {"torch.save", "penstock.checkpoint.save(state, FOLDER)"},
                                                         {"proof", "PENSTOCK_REQUIRE"},
                                                         {"Prometheus", "serve --once"},
                                                         {"container", "needs no root"},
                                                         {"checkpoint", "--save SIZE"},
                                                         {"manifest", "penstock-k8s lint"},
                                                         {"capabilities", "no root, capability"},
                                                         {"seccomp", "--security-opt"},
                                                         {"memlock", "a row of check"},
                                                         {"python", "python -m penstock"},
                                                         {"threads", "PENSTOCK_WORKERS"},
                                                         {"nvme", "check --topology"},
                                                         {"errors", "penstock help EIO"},
                                                         {"nvfs", "penstock help nvfs_off"}};
  for (const auto& [word, command] : answers) EXPECT_NE(told(word).find(command), std::string::npos) << told(word);
}

TEST_F(HelpTest, TheFirstPageNamesTheWordsThatPeopleAsk) {
  const std::string page = run({"--help"}).out;
  for (const char* word : {"slow", "save", "pod", "words"}) {
    EXPECT_NE(page.find(std::string("penstock help ") + word), std::string::npos) << page;
  }
}

TEST_F(HelpTest, TheWordsThatCanBeAskedAboutAreListed) {
  EXPECT_EQ(told("paths").find("p2pdma "), 0u);
  EXPECT_NE(told("reasons").find("\nstand_in "), std::string::npos);
  EXPECT_EQ(told("reasons").find("\nunknown "), std::string::npos) << "numbers without a meaning";
  const std::string words = told("words");
  for (const char* word : {"self-test", "off", "ACS", "prove", "compat", "metrics", "cost"}) {
    EXPECT_NE(words.find(std::string("\n") + word + " "), std::string::npos) << word;
    EXPECT_EQ(told(word).find(std::string(word) + ": "), 0u);
  }
}

void collect_codes(const nlohmann::json& told, std::set<std::string>& codes) {
  for (const auto& [key, value] : told.items()) {
    const bool is_code = (key == "code" || key == "reason") && value.is_string() && told.is_object();
    if (is_code && value.get<std::string>().find(' ') == std::string::npos) codes.insert(value.get<std::string>());
    else if (value.is_structured()) collect_codes(value, codes);
  }
}

TEST_F(HelpTest, EveryCodeThatCheckPrintsCanBeAskedAbout) {
  std::set<std::string> codes;
  for (const auto& machine : fs::directory_iterator(PENSTOCK_MACHINES)) {
    const Finished done = run({"check", "--root", machine.path().string(), "--json"});
    collect_codes(nlohmann::json::parse(done.out), codes);
  }
  codes.erase("");
  EXPECT_GT(codes.size(), 40u);
  for (const std::string& code : codes) told(code);
}

TEST_F(HelpTest, ARowOfCheckNamesTheReasonThatTheLibraryHasForItAndTheReasonTheRow) {
  EXPECT_EQ(told("gpu").find("gpu (a row of check): whether there is an NVIDIA GPU"), 0u) << told("gpu");
  EXPECT_NE(told("nvidia_fs").find("The library's reason for it is nvfs_missing."), std::string::npos);
  EXPECT_NE(told("nvfs_missing").find("Where it is so, the row nvidia_fs of 'penstock check --all' says it."),
            std::string::npos);
  EXPECT_NE(told("pointer_not_exportable").find("the row nvidia_export of "), std::string::npos);
  const std::string stand_in = told("stand_in");
  EXPECT_EQ(stand_in.find("the row device of"), stand_in.rfind("the row device of")) << stand_in;
  EXPECT_NE(stand_in.find("the row device of"), std::string::npos) << stand_in;
  EXPECT_NE(told("direct").find("'penstock help prove'"), std::string::npos);
  EXPECT_NE(told("self-test").find("'penstock check --try FOLDER'"), std::string::npos);
  EXPECT_NE(told("rows").find("\nlocked_memory "), std::string::npos);
}

TEST_F(HelpTest, ACommandsHelpIsTheOneItGivesItself) {
  EXPECT_EQ(told("cp"), run({"cp", "--help"}).out);
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
}

TEST_F(HelpTest, WordsWithASlipAreAnsweredWithTheNearestOne) {
  EXPECT_EQ(run({"help", "stand_inn"}).err,
            "penstock: 'stand_inn' is no command, path, reason, setting, variable, error or word of the tools; did you "
            "mean 'stand_in'?\n");
  EXPECT_EQ(run({"bnech"}).err, "penstock: there is no command 'bnech'; did you mean 'bench'?\n");
  EXPECT_EQ(run({"quark"}).err, "penstock: there is no command 'quark'; 'penstock help' lists them\n");
  EXPECT_EQ(run({"bench", "x", "--dpeth", "3"}).err,
            "penstock: there is no option '--dpeth'; did you mean '--depth'? See 'penstock bench --help'\n");
  EXPECT_EQ(run({"explain", "x", "--save", "4M"}).err,
            "penstock: there is no option '--save'; 'penstock explain --measure' has it; see 'penstock explain "
            "--help'\n");
  EXPECT_EQ(run({"explain", "--measure", "x", "--root", "y"}).err,
            "penstock: there is no option '--root'; 'penstock explain' has it; see 'penstock explain --measure "
            "--help'\n");
  EXPECT_EQ(run({"kv", "inspct"}).err,
            "penstock: there is no command 'inspct'; did you mean 'inspect'? See 'penstock kv --help'\n");
  EXPECT_EQ(run({"help", "quark"}).exit_code, 2);
  EXPECT_NE(run({"help", "workers", "chunk_kib"}).out.find("\nchunk_kib = "), std::string::npos) << "the second word";
  EXPECT_EQ(run({"help", "unknown"}).exit_code, 2) << "what a number without a meaning is called";
  EXPECT_NE(run({"help", "p2p"}).err.find("did you mean 'p2pdma'"), std::string::npos);
  EXPECT_NE(run({"help", "scraper"}).err.find("; it is a matter of 'metrics'\n"), std::string::npos);
  EXPECT_NE(run({"help", "cufio:297", "file", "checks", "failed"}).err.find("'penstock explain FILE.log'"),
            std::string::npos);
  EXPECT_EQ(told("Young/Daly").find("Young/Daly: the classic interval"), 0u);
  const std::string near = run({"help", "PENSTOCK_POLCY"}).err;
  EXPECT_NE(near.find("did you mean 'PENSTOCK_POLICY'?"), std::string::npos) << near;
}

TEST_F(HelpTest, AMisspeltSettingIsNamedByEveryCommandAndAnotherPrograms) {
  const auto with = [&](const char* name, std::vector<std::string> words) {
    return run(words, [name] { setenv(name, "3", 1); }).err;
  };
  EXPECT_EQ(with("PENSTOCK_WORKRES", {"help", "bounce"}),
            "penstock: PENSTOCK_WORKRES is not a setting of Penstock, and has no effect; did you mean "
            "PENSTOCK_WORKERS?\n");
  EXPECT_EQ(with("PENSTOCK_SITE_NAME", {"help", "bounce"}), "");
}

}  // namespace
}  // namespace penstock::tools
