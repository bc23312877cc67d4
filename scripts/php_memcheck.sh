#!/bin/sh
# Runs bindings/php/tests with an extension built with sanitizers.
#
#   php_memcheck.sh PHP DIRECTORY-OF-THE-BUILD
#
# It finds undefined behaviour and invalid accesses in the extension's C, and leaks of malloc by the
# extension, PHP and the library. (valgrind refuses the engine's mapping.) SESSILE_PHP_STORES as for
# php_test.sh; default: sessile files.
set -eu
cd "$(dirname "$0")/.."
php=$1
build=$2
asan=$("${CC:-cc}" -print-file-name=libasan.so)
if [ ! -e "$asan" ]; then
    echo "skipped: the memory check of the PHP extension (the compiler has no libasan.so)"
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi

dir=$(mktemp -d /dev/shm/sessile-memcheck-XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'trap "" HUP; exit 130' HUP INT TERM
mkdir "$dir/reports"
"${CC:-cc}" -shared -fPIC -o "$dir/dlopen.so" bindings/php/memcheck/dlopen.c -ldl
# Only the PHP under test and its children have the sanitizer, not the test runner. Each process
# writes its report to a file named after the test, so that output and children do not matter.
cat >"$dir/php" <<END
#!/bin/sh
for argument in "\$@"; do
    case \$argument in
    *run-tests.php) exec "$php" "\$@" ;;
    */tests/*.php) test=\$(basename "\$argument" .php) ;;
    esac
done
report=log_path=$dir/reports/\${test:-php}
export USE_ZEND_ALLOC=0 ZEND_DONT_UNLOAD_MODULES=1 LD_PRELOAD="$dir/dlopen.so $asan"
export ASAN_OPTIONS="\$report:detect_leaks=1:verify_asan_link_order=0:\$ASAN_OPTIONS"
export UBSAN_OPTIONS="\$report:print_stacktrace=1"
exec "$php" "\$@"
END
chmod +x "$dir/php"

# Stack traces of leaks take time, so they are collected only after a failure.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}"
status=0
SESSILE_PHP_STORES=${SESSILE_PHP_STORES:-sessile files} \
    sh scripts/php_test.sh "$dir/php" "$build" || status=1
for report in "$dir"/reports/*; do
    [ -e "$report" ] || continue
    echo "failed: the memory check of $(basename "$report")"
    cat "$report"
    status=1
done
if [ "$status" != 0 ]; then
    echo "for whole stacks: ASAN_OPTIONS=fast_unwind_on_malloc=0 make php-memcheck"
else
    echo "the memory check found nothing"
fi
exit "$status"
