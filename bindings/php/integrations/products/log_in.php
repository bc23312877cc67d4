<?php
// Logs in to Drupal 7 as admin and prints the cookie: php log_in.php PORT

require __DIR__ . '/browser.php';

$browser = new Browser(['http' => (int) $argv[1]]);
$page = $browser->submit($browser->get('http:/drupal/index.php?q=user'), './/input[@name="name"]',
    ['name' => 'admin', 'pass' => 'secret', 'op' => 'Log in']);
$page->has('user/logout') || throw new Exception("the log-in fails: {$page->said()}");
echo key($browser->cookies), '=', current($browser->cookies), "\n";
