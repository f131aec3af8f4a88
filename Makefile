# Everything that people and CI run. `make help` lists it.
# Tests run against the wheel that is installed in .venv, never against the source tree.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_DIR := .run
SOURCES := $(wildcard $(shell git ls-files -co --exclude-standard api predictor extender operator deviceplugin simulator cli dashboard runtime))
PROTOS := $(wildcard deviceplugin/cotenant_deviceplugin/kubelet/protos/*.proto)
MODEL := predictor/cotenant_predictor/models/default.json
MODEL_DATA := kernels timm gavel
OPENB_TRACES := default gpushare40 multigpu20
# One job of test-node is a real one; COTENANT_TORCH_VENV names an environment for it that is there already.
TORCH := $(if $(COTENANT_TORCH_VENV),,$(VENV)-torch/.dependencies)
TORCH_PYTHON := $(or $(COTENANT_TORCH_VENV),$(VENV)-torch)/bin/python

# The demo needs less than development does, and shows something sooner; where everything is installed, that will do.
DEMO := $(if $(wildcard $(VENV)/.dependencies),$(VENV)/.wheel,$(VENV)/.demo-wheel)

# The other folders have targets of their own.
UNIT := tests $(addprefix --ignore=tests/,browser chart cluster install mps node release security simulation torch)

# Programs and tests start Python hundreds of times: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test test-unit coverage test-simulation test-chart test-cluster test-security test-mps record-mps test-node test-install test-release test-torch test-browser soak soak-hostile soak-node soak-operator mutants images release lint format openb evidence bench bench-admission bench-dashboard bench-extender bench-node bench-operator bench-operator-rest bench-predictions bench-simulator bench-takeover space-time model evaluation examples screenshots protos rbac-used sizes manifests packages pod-spec reference docs docs-serve lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

packages: ## what the tests of nodes, images and browsers need of the distribution (as root; Debian, Ubuntu)
	@scripts/install-node-packages
	@scripts/install-image-packages
	@scripts/install-browser

demo: $(DEMO) ## real Kubernetes places real models on simulated GPUs (KEEP=1 leaves it running)
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e demo --dir $(RUN_DIR)/demo $(if $(KEEP),--keep)

demo-down: $(DEMO) ## stop what `make demo KEEP=1` left running
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e down --dir $(RUN_DIR)/demo

test: test-unit test-simulation test-chart test-cluster test-security ## unit, simulation, chart, cluster and security tests

test-unit: $(VENV)/.wheel ## decision code, a process more than cores, as some wait; no cluster needed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(UNIT) -q -n $$(($$(nproc) + 1)) --dist worksteal

coverage: $(VENV)/.wheel ## the same with a coverage report, in twice the time
	OMP_NUM_THREADS=1 COVERAGE_FILE=.coverage.unit $(BIN)/python -m pytest $(UNIT) -q -n auto --dist worksteal --cov --cov-report=term

test-simulation: $(VENV)/.wheel ## 100 seeded worlds in which every part of the extender's surroundings fails
	$(BIN)/python -m pytest tests/simulation -q -n auto

test-chart: $(VENV)/.wheel ## the Helm chart, by helm, without a cluster
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e programs --helm >/dev/null
	$(BIN)/python -m pytest tests/chart -q

test-cluster: $(VENV)/.wheel ## against real Kubernetes control planes, three side by side: most tests wait
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e programs --kueue --helm >/dev/null
	$(BIN)/python -m pytest tests/cluster -q -n 3 --dist loadfile --no-loadscope-reorder

test-security: $(VENV)/.wheel ## what an attacker's own token can do on a real control plane: a tenant's, a node agent's, the operator's
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e programs --helm >/dev/null
	$(BIN)/python -m pytest tests/security -q -n 3 --dist loadfile --no-loadscope-reorder

rbac-used: $(VENV)/.wheel ## run the suites that use our accounts, and write manifests/rbac/rights.txt from the API server's audit logs (about half an hour)
	@rm -rf $(RUN_DIR)/rights
	COTENANT_RECORD_RIGHTS=$(RUN_DIR)/rights $(MAKE) test-cluster test-security test-install
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e rights --logs $(RUN_DIR)/rights

test-mps: $(VENV)/.wheel ## the node agent on NVIDIA's own MPS control programs, fetched by apt; they need no GPU
	@scripts/test-mps $(VENV)

record-mps: $(VENV)/.wheel ## write what NVIDIA's MPS control programs answer into tests/mps_kit/answers
	@scripts/fetch-mps >/dev/null
	@PYTHONPATH=tests:e2e $(BIN)/python -m mps_kit.record

test-node: $(VENV)/.wheel $(TORCH) ## on a real node: kubelet and containerd, as root; its GPUs are stand-ins
	@scripts/test-node $(VENV)

images: $(VENV)/.wheel ## the container images, into .run/images (IMAGE_TAG, IMAGE_BASE, IMAGE_REVISION: see images/README.md)
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e images --out $(RUN_DIR)/images $(IMAGE_TAG:%=--tag %) \
		$(IMAGE_BASE:%=--base %) $(IMAGE_REVISION:%=--revision %)

test-install: $(VENV)/.wheel ## the chart by helm on a real node, as root: every component in a container of its image
	@scripts/test-install $(VENV)

release: $(VENV)/.wheel ## images and chart to a registry of yours, signed; the Python package is checked (REGISTRY=host/folder, VERSION, KEY, REGISTRY_CA, ARCHITECTURES: see images/README.md)
	@test -n "$(REGISTRY)" || { echo "name a registry of yours and a folder in it: make release REGISTRY=registry.example:5000/team/cotenant" >&2; exit 2; }
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e release --registry "$(REGISTRY)" --out $(RUN_DIR)/release --images $(RUN_DIR)/images \
		$(VERSION:%=--version %) $(KEY:%=--key %) $(REGISTRY_CA:%=--ca %) $(ARCHITECTURES:%=--architecture %) \
		$(IMAGE_BASE:%=--base %) $(IMAGE_REVISION:%=--revision %)

test-release: $(VENV)/.wheel ## a release in a real registry, open and private: pushed, signed, changed by somebody and found out
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e programs --helm --release >/dev/null
	$(BIN)/python -m pytest tests/release -q

soak-node: $(VENV)/.wheel ## 10,000 seeded schedules of late binding; 200 pairs of equal pods on a real node, not 20
	@PYTHONPATH=tests $(BIN)/python -m node_kit.schedules --seeds 10000 --jobs $$(nproc)
	@COTENANT_NODE_PAIRS=200 scripts/test-node $(VENV) -k never_swap

soak-hostile: $(VENV)/.wheel ## a hostile namespace beside an honest one on a real control plane, more than an hour (MINUTES=60)
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e soak-hostile --dir $(RUN_DIR)/soak-hostile $(MINUTES:%=--minutes %) --write docs/operations/security.md

soak: $(VENV)/.wheel ## the simulation of the extender with 10,000 seeds, on all cores (SEEDS=first-last)
	@PYTHONPATH=tests $(BIN)/python -m simulation --seeds $(or $(SEEDS),0-9999) --write docs/packing.md

soak-operator: $(VENV)/.wheel ## 10,000 random histories of the operator, on all cores (SEEDS=first-last, 50 histories each; the first that fails ends it)
	@PYTHONPATH=tests:e2e $(BIN)/python -m operator_kit.soak $(SEEDS:%=--seeds %)

mutants: $(VENV)/.wheel ## put defects into the extender and see whether its tests notice (SAMPLE=350; about an hour of a core; goes on where it was)
	@PYTHONPATH=tests $(BIN)/python -m mutants --jobs $$(nproc) $(SAMPLE:%=--sample %) --write docs/packing.md

test-torch: $(VENV)-torch/.wheel ## extraction from real model definitions (torch: 5.6 GB)
	OMP_NUM_THREADS=1 $(VENV)-torch/bin/python -m pytest tests/torch -q -n auto --dist worksteal

test-browser: $(VENV)/.wheel ## the dashboard in Chromium: journeys, keys, accessibility
	@scripts/test-browser $(VENV)

lint: $(VENV)/.wheel ## formatting, lint, types, import contracts, generated manifests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/cotenant crds --check manifests/crds
	$(BIN)/cotenant crds --check-reference docs/dljob.md
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e chart --check
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e reference --check

format: $(VENV)/.dependencies ## rewrite to the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

openb: $(VENV)/.wheel ## the published packing experiment, into docs/packing.md (TRACES=folder with the trace; about half an hour)
	@test -n "$(TRACES)" || { echo "name the folder that holds openb_node_list_gpu_node.csv: make openb TRACES=..." >&2; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/cotenant simulate openb --trace-dir "$(TRACES)" $(OPENB_TRACES:%=--trace %) --placement all \
		--max-tenants 16 --max-tenants 3 --folder docs/evidence/openb --write docs/packing.md

evidence: $(VENV)/.wheel $(if $(TRACES),openb) ## every table and plot of docs/evidence/, byte by byte (TRACES=folder adds openb)
	@scripts/evidence $(VENV)
	@test -n "$(TRACES)" || echo "evidence: what rests on the openb trace stays as it is (make evidence TRACES=folder)" >&2

bench: $(VENV)/.wheel ## ratios of speed against plain kube-scheduler, on this machine (about half an hour)
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e bench --dir $(RUN_DIR)/bench --write docs/packing.md

bench-admission: $(VENV)/.wheel ## pods that ask for no share, created with everything of ours and with parts missing (about ten minutes)
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e bench-admission --dir $(RUN_DIR)/bench-admission --write docs/operations/security.md

bench-extender: $(VENV)/.wheel ## filter, events, memory and start of the extender at the size of a large cluster
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e bench-extender --write docs/packing.md --plot docs/images/extender-cost.svg

bench-takeover: $(VENV)/.wheel ## a leader that takes over a thousand pods, on a real control plane (about a minute)
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e bench-takeover --dir $(RUN_DIR)/bench-takeover --write docs/packing.md

space-time: $(VENV)/.wheel $(TORCH) ## inference with an SLO beside training under each way to share the cores of this machine (about 20 minutes; QUICK=1: shows that it works)
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e space-time --python $(TORCH_PYTHON) \
		$(if $(QUICK),--quick,--write docs/space-time.md --plot docs/images/space-time.svg --keep $(RUN_DIR)/space-time.json)

bench-dashboard: $(VENV)/.wheel ## the longest task of Chromium while 1,000 GPUs change ten times a second (about a minute)
	@scripts/install-browser >/dev/null
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e bench-dashboard --write docs/dashboard.md

screenshots: $(VENV)/.wheel ## docs/images: the dashboard of a made-up cluster; `top`, `why` of the demo's; a what-if page
	@scripts/install-browser >/dev/null
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e screenshots docs/images
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e pictures docs/images --dir $(RUN_DIR)/pictures

bench-node: $(VENV)/.wheel ## calls, added start time and weight of the node agent on a real node, as root (about five minutes)
	@scripts/install-node-packages
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e bench-node --dir $(RUN_DIR)/bench-node --write docs/node-agent.md

bench-operator: $(VENV)/.wheel ## 1,000 DLJobs at once on a real control plane (about five minutes)
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e bench-operator --dir $(RUN_DIR)/bench-operator --write operator/README.md

bench-operator-rest: $(VENV)/.wheel ## the operator at rest with 10,000 DLJobs that are over, on a real control plane (about a quarter of an hour)
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e bench-operator-rest --dir $(RUN_DIR)/bench-operator --write operator/README.md

model: $(VENV)/.wheel ## train the model that ships from data in the repository (the same data and machine: the same bytes)
	OMP_NUM_THREADS=1 $(BIN)/cotenant train $(MODEL_DATA) --from-scratch --name default-1 --out $(RUN_DIR)/model
	cp $(RUN_DIR)/model/model.json $(MODEL)

evaluation: $(VENV)/.wheel ## write the tables of docs/prediction.md again (about half an hour)
	@for data in "kernels" "carma" "timm" "language-models" "gavel" "gavel-again" "miso" "miso-jobs" "zeus" "alnair"; do \
		OMP_NUM_THREADS=1 $(BIN)/cotenant evaluate $$data --write docs/prediction.md >/dev/null || exit 1; done

bench-predictions: $(VENV)/.wheel ## the time of predictions, and of loading the model
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e bench-predictions

bench-simulator: $(VENV)/.wheel ## CPU time and memory of simulated runs, up to 100,000 jobs on 10,000 GPUs (about six minutes)
	@OMP_NUM_THREADS=1 PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e bench-simulator --write docs/simulator.md --plot docs/images/simulator-cost.svg

protos: $(VENV)/.dependencies ## write kubelet's gRPC messages from the .proto files
	$(BIN)/python -m grpc_tools.protoc -Ideviceplugin --python_out=deviceplugin --pyi_out=deviceplugin $(PROTOS)

sizes: $(VENV)/.wheel ## hold the bounds of what the operator reads against real models, into docs/concepts/untrusted-input.md
	@PYTHONPATH=tests $(BIN)/python -m predictor_kit.sizes --write docs/concepts/untrusted-input.md

manifests: $(VENV)/.wheel ## write the CRDs from the types, and what the chart takes from manifests/
	$(BIN)/cotenant crds --write manifests/crds
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e chart --write

pod-spec: $(VENV)/.wheel ## write the schema of a PodSpec that the CRD of DLJob contains, from the pinned Kubernetes
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e programs >/dev/null
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e pod-spec --write

reference: $(VENV)/.wheel ## write the generated parts of docs/: fields, examples, commands, values, metrics
	$(BIN)/cotenant crds --reference docs/dljob.md
	@PYTHONPATH=e2e $(BIN)/python -m cotenant_e2e reference --write

docs: $(VENV)/.wheel ## build the documentation site into .run/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=e2e $(BIN)/mkdocs build --strict

docs-serve: $(VENV)/.wheel ## show the site on 127.0.0.1:8000, and build it again when a page changes
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=e2e $(BIN)/mkdocs serve

examples: $(VENV)-torch/.wheel ## extract the example graphs again
	PYTHONPATH=manifests/examples/models $(VENV)-torch/bin/python -m example_models --write manifests/examples/graphs

lock: $(VENV)/.dependencies ## choose exact versions of every dependency again
	$(BIN)/uv pip compile -q --universal --generate-hashes --upgrade --no-emit-package cotenant --extra dev -o locks/dev.txt pyproject.toml
	$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-package cotenant --extra demo -c locks/dev.txt -o locks/demo.txt pyproject.toml
	$(BIN)/uv pip compile -q --universal --generate-hashes --upgrade --no-emit-package cotenant --extra torch-tests -o locks/torch.txt pyproject.toml
	@scripts/lock-images $(VENV)

clean: ## remove everything that these targets made here (not the cache of Kubernetes binaries)
	rm -rf $(VENV) $(VENV)-torch $(RUN_DIR) dist .coverage* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/.dependencies: locks/dev.txt
	@scripts/make-venv $(PYTHON) $(VENV) locks/dev.txt
	@touch $@

$(VENV)/.wheel: $(VENV)/.dependencies pyproject.toml README.md $(SOURCES)
	@scripts/install-wheel $(VENV)
	@touch $@

$(VENV)/.demo-dependencies: locks/demo.txt
	@scripts/make-venv $(PYTHON) $(VENV) locks/demo.txt
	@touch $@

$(VENV)/.demo-wheel: $(VENV)/.demo-dependencies pyproject.toml README.md $(SOURCES)
	@scripts/install-wheel $(VENV)
	@touch $@

$(VENV)-torch/.dependencies: locks/torch.txt
	@scripts/make-venv $(PYTHON) $(VENV)-torch locks/torch.txt
	@touch $@

$(VENV)-torch/.wheel: $(VENV)-torch/.dependencies pyproject.toml README.md $(SOURCES)
	@scripts/install-wheel $(VENV)-torch
	@touch $@
