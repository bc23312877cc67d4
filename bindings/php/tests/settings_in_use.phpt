--TEST--
settings of an open session are not changed, as PHP's own are not
--FILE--
<?php
require __DIR__ . '/common.inc';
$settings = ['lock_wait' => '1', 'on_lock_timeout' => 'read_only', 'concurrency' => 'merge',
    'merge_conflict' => 'fail', 'grace' => '1', 'first_lifetime' => '1', 'absolute_lifetime' => '1',
    'read_only' => '1', 'lazy_start' => '0', 'touch_unlocked' => '1'];
$told = [];
set_error_handler(function ($level, $text) use (&$told) {
    $told[] = $text;
    return true;
});
start(fresh_id());
foreach ($settings as $name => $value) {
    $before = ini_get("sessile.$name");
    $told = [];
    $set = ini_set("sessile.$name", $value);
    if ($set !== false || ini_get("sessile.$name") !== $before
        || $told !== ["ini_set(): sessile.$name cannot be changed when a session is active"]) {
        var_dump($name, $set, $told);
    }
}
$told = [];
var_dump(ini_set('sessile.log', '0'));
session_write_close();
foreach ($settings as $name => $value) {
    if (ini_set("sessile.$name", $value) === false || ini_get("sessile.$name") !== $value) {
        var_dump($name, $told);
    }
}
// A handler that prepares the opening of its session, as the one for Drupal 7 does.
class Prepared extends SessionHandler
{
    public function open(string $path, string $name): bool
    {
        var_dump(ini_set('sessile.lazy_start', '1'));
        return parent::open($path, $name);
    }
}
session_set_save_handler(new Prepared(), true);
start(fresh_id());
var_dump(ini_set('sessile.lazy_start', '0'), $told);
?>
--EXPECT--
string(1) "1"
string(1) "0"
bool(false)
array(1) {
  [0]=>
  string(72) "ini_set(): sessile.lazy_start cannot be changed when a session is active"
}
