# What one can do here: `make` or `make help` lists it. `.ci/run` calls these targets and nothing else.

CARGO ?= cargo
# Where `make bench` leaves its results; git ignores it.
BENCH_OUT ?= bench-out
# The store and the length of `make storm`, and the store of `make example`; their own defaults if empty.
STORE ?=
SECONDS ?=
# The language of `make example`.
LANGUAGE := php
# How many times more orders than `make test` does `make models` try.
TIMES ?= 20
# The engine with a scheduler under it, in a build of its own.
MODELS := RUSTFLAGS="$$RUSTFLAGS --cfg sessile_model" $(CARGO)
MODELS_OF := -p sessile-engine --lib --target-dir target/models
# In CI the checked-in Cargo.lock is what is tested.
LOCKED := $(if $(filter true 1,$(CI)),--locked)

.DEFAULT_GOAL := help
.PHONY: help run build deps test models-briefly check bench compare-trials storm failovers valkey powercut models kill-steps fuzz php php-memcheck php-versions php-threads php-bench php-gc-bench live-switch php-install capi-install perl perl-bench perl-session-tests python python-test python-bench node node-test node-bench example test-products php-session-tests packages packages-check packages-test toolchain node-session-tests python-session-tests

help: ## Lists the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-17s %s\n", $$1, $$2 }'

run: build ## Builds, measures what this machine can run in every experiment (ten minutes), and leaves a report
	target/release/sessile bench all --quick --export-json sessile-report.json --report sessile-report.html

build: toolchain ## Leaves the command in target/release/sessile
	$(CARGO) build --release $(LOCKED) --bin sessile --target-dir target

deps: ## Lists what the tests need and this machine lacks, and installs it (SESSILE_NO_INSTALL=1: only lists)
	@sh scripts/deps.sh

test: deps ## Installs what the tests need, then runs every test and prints the conformance matrix
	@sh scripts/toolchain.sh
	@sh scripts/test.sh

models-briefly:
	$(MODELS) test $(MODELS_OF) $(LOCKED) models

check: toolchain ## Format, lints, documentation, scripts; the same here and in CI
	@# Every file by name: cargo fmt does not see the modules that a macro declares.
	rustfmt --check --edition 2024 $$(find bindings/node/src bindings/python crates spec tests -name '*.rs' -not -path '*/target/*')
	$(CARGO) clippy --workspace --all-targets $(LOCKED) -- -D warnings
	$(MODELS) clippy $(MODELS_OF) --tests $(LOCKED) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps $(LOCKED)
	@sh scripts/check_more.sh

bench: build ## Runs every experiment in full (long) and leaves JSON in bench-out/
	@sh scripts/bench.sh $(BENCH_OUT)

compare-trials: toolchain ## Tries --baseline 20 times on a store and on the same one slowed by 10 % (20 min; TRIALS=3)
	$(CARGO) test --release $(LOCKED) -p sessile-bench --test slowed_store -- trials $(TRIALS)

storm: toolchain ## Kills and stops processes that work on a store for ten minutes, then servers (STORE=files SECONDS=60)
	$(CARGO) build --release $(LOCKED) -p sessile-testkit --bin sessile-storm --target-dir target
	target/release/sessile-storm $(if $(STORE),--url $(STORE)) $(if $(SECONDS),--seconds $(SECONDS))
	target/release/sessile-storm $(if $(STORE),--url $(STORE)) --stop-one 5
	$(CARGO) test --release $(LOCKED) -p sessile-stores --test mysql --test postgres -- --ignored --nocapture none_of_16000

failovers: toolchain ## Kills primaries of a private Redis cluster under eight workers that count, and compares the sums; the conformance suite on a cluster and behind sentinels (15 minutes)
	$(CARGO) test --release $(LOCKED) -p sessile-stores --test redis_hosts -- --ignored --nocapture --test-threads=1 --skip measure
	$(CARGO) test --release $(LOCKED) -p sessile-testkit --test conformance -- redis/cluster redis/sentinel

valkey: toolchain ## Runs the conformance suite on Valkey of Debian 13 in a chroot: one server, a cluster, sentinels (as root; 10 minutes)
	@sh scripts/valkey.sh

powercut: toolchain ## Cuts the power of an engine at 50,000 moments and recovers each image (SESSILE_POWERCUT_SEED=n repeats one history)
	$(CARGO) test --release $(LOCKED) -p sessile-engine --lib -- --ignored --nocapture powercut

models: toolchain ## Runs the model checks of the engine in other and many more orders than `make test` (TIMES=20)
	SESSILE_MODEL_RUNS=$(TIMES) $(MODELS) test $(MODELS_OF) $(LOCKED) models

kill-steps: toolchain ## Stops and kills a process before each single write of each operation of the engine (ten minutes)
	SESSILE_ALL_STEPS=1 $(CARGO) test $(LOCKED) -p sessile-engine --test crash

fuzz: toolchain ## Gives what comes from disks, servers, URLs and other programs to libFuzzer, ten minutes each (SECONDS=60)
	@sh scripts/fuzz.sh $(or $(SECONDS),600)

php: toolchain ## Builds the session handler for the installed PHP, and says where it is
	@sh scripts/php.sh build

php-memcheck: toolchain ## Builds it with sanitizers and looks for leaks and bad accesses in its tests
	@SESSILE_PROFILE=debug sh scripts/php.sh memcheck

php-versions: toolchain ## Tests it with other versions of PHP in chroots, as root (VERSIONS='8.3 8.5')
	@sh scripts/php_versions.sh $(or $(VERSIONS),8.4)

php-threads: toolchain ## Builds a thread-safe PHP and tests it there, a million requests in threads (REQUESTS=100000)
	@sh scripts/php_threads.sh $(REQUESTS)

php-bench: php ## Measures it beside PHP's files, APCu and phpredis (ROUNDS=30 CALLS=1000 SESSIONS=1000)
	@sh scripts/php.sh bench $(or $(ROUNDS),30) $(or $(CALLS),1000) $(or $(SESSIONS),1000)

php-gc-bench: php ## Measures starts beside garbage collection, and the deletion of nine of ten sessions (ROUNDS=5 CALLS=2000 SESSIONS=550000)
	@sh scripts/php.sh gc-bench $(or $(ROUNDS),5) $(or $(CALLS),2000) $(or $(SESSIONS),550000)

live-switch: php ## Moves a site under php-fpm between stores and back, with phpredis and PHP's files, and times its requests (VISITORS=10000 RATE=200)
	@sh scripts/php.sh live-switch $(or $(VISITORS),10000) $(or $(RATE),200)

capi-install: toolchain ## Installs the C interface, shared and static, with a pkg-config file (PREFIX=/usr/local)
	@sh scripts/capi.sh install $(or $(PREFIX),/usr/local)

php-install: php ## Copies it into PHP's directory of extensions (root)
	@sh scripts/php.sh install

perl: toolchain ## Builds the modules for the installed Perl, and says where they are
	@sh scripts/perl.sh build

perl-bench: toolchain ## Measures the loop of source C in Perl: Apache::Session::File, ours, and floors (ROUNDS=15)
	@sh scripts/perl.sh bench $(ROUNDS)

perl-session-tests: toolchain ## Runs tests of Apache::Session and of Plack's sessions themselves on them
	@sh scripts/perl.sh session-tests

python: toolchain ## Builds the Python package in an environment of its own, and says where it is
	@sh scripts/python.sh build

python-test: toolchain ## Tests it: Django, Flask, Starlette, gunicorn, uvicorn
	@sh scripts/python.sh test

python-bench: toolchain ## Measures the sessions of Django and Flask beside their own (ROUNDS=60 CALLS=100)
	@sh scripts/python.sh bench $(or $(ROUNDS),60) $(or $(CALLS),100)

node: toolchain ## Builds the Node addon in bindings/node
	@sh scripts/node.sh build

node-test: toolchain ## Tests it: Express, express-session, Fastify, Passport, a cluster, worker threads
	@sh scripts/node.sh test

node-bench: toolchain ## Measures stores of express-session beside ours (ROUNDS=7 CALLS=2000)
	@sh scripts/node.sh bench $(or $(ROUNDS),7) $(or $(CALLS),2000)

example: $(if $(filter php,$(LANGUAGE)),php,toolchain) ## Opens a small shop on these sessions, to look at in a browser (LANGUAGE=python, perl or node STORE=redis://localhost)
	@STORE='$(STORE)' sh scripts/$(LANGUAGE).sh example

test-products: php ## Installs Drupal 7, phpMyAdmin, Adminer, DokuWiki and Roundcube in a private place and checks them on it (STORE=redis://localhost SETTING=NAME=VALUE)
	@STORE='$(STORE)' sh scripts/php.sh products $(SETTING)

node-session-tests: node ## Runs tests of express-session itself on its Store
	@sh scripts/express_session_tests.sh

python-session-tests: python ## Runs tests of Flask-Session itself on the sessions of Flask (Django's are in python-test)
	@sh scripts/flask_session_tests.sh target/python-release

php-session-tests: php ## Runs the tests of PHP's own session extension on it and on PHP's files
	@sh scripts/php.sh session-tests

packages: toolchain ## Builds Debian packages, a wheel, an npm package and a static command into dist/, as root on Debian 12
	@sh scripts/deps.sh packages
	@sh scripts/packages.sh build

packages-check: ## Builds them again in another directory and compares the bytes
	@sh scripts/packages.sh check

packages-test: ## Installs, uses, upgrades and removes each in chroots of Debian 12 and 13, as root
	@sh scripts/packages_test.sh

toolchain:
	@sh scripts/toolchain.sh
