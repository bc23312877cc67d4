<?php
// Makes a user and logs him in: the cookie of the answer is that of a visitor who is logged in.

$name = 'visitor' . (int) ($_GET['number'] ?? 0);
require __DIR__ . '/site.php';
require_once 'includes/bootstrap.inc';
drupal_bootstrap(DRUPAL_BOOTSTRAP_FULL);
$new = ['name' => $name, 'mail' => "$name@example.com", 'status' => 1];
$user = user_save(drupal_anonymous_user(), $new);
$edit = [];
user_login_finalize($edit);
drupal_session_commit();
echo "logged in\n";
