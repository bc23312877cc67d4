<?php
// Drupal 7 behind a private web server: what its pages know of a request, and where it is.

define('DRUPAL_ROOT', get_cfg_var('contender.drupal'));
chdir(DRUPAL_ROOT);
$base_url = 'http://127.0.0.1';
$_SERVER = ['HTTP_HOST' => '127.0.0.1', 'SERVER_NAME' => '127.0.0.1', 'SCRIPT_NAME' => '/index.php',
    'REQUEST_URI' => '/index.php?q=node', 'REMOTE_ADDR' => '127.0.0.1',
    'SERVER_SOFTWARE' => 'nginx', 'SERVER_PROTOCOL' => 'HTTP/1.1'] + $_SERVER;
$_GET = ['q' => 'node'];
