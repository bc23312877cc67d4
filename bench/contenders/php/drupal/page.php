<?php
// The front page of Drupal 7, as its index.php makes it, for one of the visitors who are logged in.

$visitors = file(__DIR__ . '/visitors', FILE_IGNORE_NEW_LINES);
require __DIR__ . '/site.php';
[$name, $value] = explode('=', $visitors[array_rand($visitors)]);
$_COOKIE = [$name => $value];
require_once 'includes/bootstrap.inc';
drupal_bootstrap(DRUPAL_BOOTSTRAP_FULL);
if (!user_is_logged_in()) {
    http_response_code(500);
    exit("the session is lost\n");
}
menu_execute_active_handler();
