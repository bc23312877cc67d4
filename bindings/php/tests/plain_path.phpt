--TEST--
a plain absolute path is an engine there, and the forms of PHP's own files are refused
--FILE--
<?php
require __DIR__ . '/common.inc';
$path = sys_get_temp_dir() . '/sessile-plain-' . getmypid();
$id = fresh_id();
session_save_path($path);
start($id);
$_SESSION['a'] = 1;
session_write_close();
session_save_path("sessile:$path");
echo json_encode(stored($id)), "\n";

set_error_handler(fn ($level, $text) => print("$text\n"));
foreach (["5;/var/php", "5;0600;/var/php", ''] as $php) {
    session_save_path($php);
    var_dump(session_start());
}
exec('rm -r ' . escapeshellarg($path));
?>
--EXPECT--
{"a":1}
session_start(): N;/path and N;MODE;/path are forms of PHP's own session files; write /var/php for an engine in this directory, or files:/var/php?php=1&depth=5 for PHP's files
session_start(): Failed to initialize storage module: sessile (path: 5;/var/php)
bool(false)
session_start(): N;/path and N;MODE;/path are forms of PHP's own session files; write /var/php for an engine in this directory, or files:/var/php?php=1&depth=5 for PHP's files
session_start(): Failed to initialize storage module: sessile (path: 5;0600;/var/php)
bool(false)
session_start(): session.save_path is empty; set it to a store URL, for example sessile:/var/lib/sessile
session_start(): Failed to initialize storage module: sessile (path: )
bool(false)
