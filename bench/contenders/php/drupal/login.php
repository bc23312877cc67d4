<?php
// Logs the administrator in: the cookie of the answer is that of a visitor who is logged in.

require __DIR__ . '/site.php';
require_once 'includes/bootstrap.inc';
drupal_bootstrap(DRUPAL_BOOTSTRAP_FULL);
$user = user_load(1);
$edit = [];
user_login_finalize($edit);
drupal_session_commit();
echo "logged in\n";
