<?php
// The page of package_steps.sh: counts the requests of a session and names its handler.
session_start();
$_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
echo $_SESSION['count'], ' ', ini_get('session.save_handler');
