<?php
// Saves sessions, or reads them back: php copy.php save|save-table|read SESSIONS [DATABASE]. `save`
// and `read` use the handler of the settings, `save-table` Symfony's for a table in a SQLite file.

use Symfony\Component\HttpFoundation\Session\Storage\Handler\PdoSessionHandler;

[, $verb, $sessions] = $argv;
if ($verb === 'save-table') {
    require 'Symfony/Component/HttpFoundation/autoload.php';
    $handler = new PdoSessionHandler("sqlite:$argv[3]");
    $handler->createTable();
    session_set_save_handler($handler, true);
}
for ($i = 0; $i < $sessions; $i++) {
    // The characters of PHP's own ids.
    $id = sprintf('visitor-,Z%06d', $i);
    $content = ['n' => $i, 'name' => "J\u{fc}rgen \0'\\", 'price' => 1.5,
        'cart' => [['id' => $i, 'count' => 2]], 'object' => new ArrayObject([$i])];
    session_id($id);
    if (!session_start()) {
        exit("session $i does not start\n");
    }
    if ($verb !== 'read') {
        $_SESSION = $content;
    } elseif (session_id() !== $id) {
        exit("session $i is unknown\n");
    } elseif (serialize($_SESSION) !== serialize($content)) {
        exit("session $i has another content\n");
    }
    session_write_close();
}
