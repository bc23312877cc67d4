--TEST--
settings that make no sense are refused, and the old ones stay
--FILE--
<?php
require __DIR__ . '/common.inc';
foreach (['sessile.lock_wait' => '-1', 'sessile.grace' => '601', 'sessile.absolute_lifetime' => 'long',
    'sessile.on_lock_timeout' => 'ignore'] as $name => $value) {
    var_dump(ini_set($name, $value), ini_get($name));
}
var_dump(ini_set('sessile.lock_wait', '0.25'), ini_get('sessile.lock_wait'));
// These are for php.ini: what it says wrongly is said, and does not count.
foreach (['payload_limit' => '-1', 'hashed_ids' => 'maybe'] as $name => $value) {
    $said = shell_exec(sprintf('%s -n -d extension=%s -d display_startup_errors=1 -d sessile.%s=%s -r %s', PHP_BINARY,
        escapeshellarg(getenv('SESSILE_PHP_EXTENSION')), $name, $value, escapeshellarg("var_dump(ini_get('sessile.$name'));")));
    echo preg_replace('/^.*?sessile/s', 'sessile', $said);
}
// With a unit, as in php.ini elsewhere.
$code = 'require $argv[1]; start(fresh_id()); $_SESSION["a"] = str_repeat("a", 1100); session_write_close();';
$said = shell_exec(sprintf('%s -n -d extension=%s -d sessile.payload_limit=1K -d session.save_handler=sessile'
    . ' -d session.save_path=memory: -d html_errors=0 -r %s %s', PHP_BINARY,
    escapeshellarg(getenv('SESSILE_PHP_EXTENSION')), escapeshellarg($code), escapeshellarg(__DIR__ . '/common.inc')));
echo preg_replace('/.*(limit \d+ bytes).*/s', '$1', $said), "\n";
?>
--EXPECTF--
Warning: ini_set(): sessile.lock_wait is a number of seconds from 0 to 3600 in %s on line %d
bool(false)
string(2) "30"

Warning: ini_set(): sessile.grace is a number of seconds from 0 to 600 in %s on line %d
bool(false)
string(2) "30"

Warning: ini_set(): sessile.absolute_lifetime is a number of seconds from 0 to 315360000 in %s on line %d
bool(false)
string(1) "0"

Warning: ini_set(): sessile.on_lock_timeout is fail or read_only in %s on line %d
bool(false)
string(4) "fail"
string(2) "30"
string(4) "0.25"
sessile.payload_limit is a number of bytes, such as 8388608 or 8M, and not negative in %s
string(1) "0"
sessile.hashed_ids is On or Off in %s
string(1) "0"
limit 1024 bytes
