--TEST--
a store that cannot be opened makes session_start() fail, with a reason and without the password
--FILE--
<?php
require __DIR__ . '/common.inc';
set_error_handler(function ($level, $text) {
    echo str_contains($text, 'geheim') ? "PASSWORD: $text\n" : preg_replace('/ \(os error.*/', '', $text), "\n";
});
session_save_path('redis://shop:geheim@127.0.0.1:1/0?connect_timeout_ms=100');
var_dump(session_start(), session_status() === PHP_SESSION_ACTIVE);
session_save_path('redsi://shop:geheim@127.0.0.1/');
var_dump(session_start());
session_save_path('');
var_dump(session_start());
session_save_path('memory:');
var_dump(session_start());
ob_start();
phpinfo(INFO_MODULES);
$_SESSION['a'] = 1;
session_write_close();
session_save_path('redis://shop:geheim@127.0.0.1:1/0');
@session_start();
phpinfo(INFO_MODULES | INFO_CONFIGURATION);
var_dump(str_contains(ob_get_clean(), 'geheim'));
?>
--EXPECTF--
session_start(): redis://127.0.0.1:1/0: cannot open: %s
session_start(): Failed to initialize storage module: sessile (path: redis://127.0.0.1:1/0)
bool(false)
bool(false)
session_start(): redsi://127.0.0.1/: cannot open: unknown store scheme "redsi"; known schemes: %s
session_start(): Failed to initialize storage module: sessile (path: redsi://127.0.0.1/)
bool(false)
session_start(): session.save_path is empty; set it to a store URL, for example sessile:/var/lib/sessile
session_start(): Failed to initialize storage module: sessile (path: )
bool(false)
bool(true)
bool(false)
