<?php
// Installs Drupal 7: php install_drupal7.php ROOT SOCKET-OF-THE-DATABASE

[, $root, $socket] = $argv;
chdir($root);
const MAINTENANCE_MODE = 'install';
define('DRUPAL_ROOT', $root);
$base_url = 'http://127.0.0.1/drupal';
require 'includes/install.core.inc';

$database = ['driver' => 'mysql', 'database' => 'drupal', 'username' => 'root', 'password' => '',
    'host' => 'localhost', 'unix_socket' => $socket, 'prefix' => ''];
$settings = file_get_contents('sites/default/default.settings.php')
    . "\$databases['default']['default'] = " . var_export($database, true) . ";\n"
    . "\$drupal_hash_salt = '" . bin2hex(random_bytes(16)) . "';\n"
    . <<<'END'
    $sessions = $_SERVER['SITE_SESSIONS'] ?? '';
    $conf['https'] = $sessions === 'mixed';
    if (PHP_SAPI !== 'cli') {
      $conf['session_inc'] = 'sites/all/libraries/sessile/sessile.inc';
    }

    END;
file_put_contents('sites/default/settings.php', $settings);
mkdir('sites/default/files');

$password = ['pass1' => 'secret', 'pass2' => 'secret'];
install_drupal([
    'parameters' => ['profile' => 'standard', 'locale' => 'en'],
    'forms' => ['install_configure_form' => [
        'site_name' => 'Shop', 'site_mail' => 'shop@example.com',
        'account' => ['name' => 'admin', 'mail' => 'admin@example.com', 'pass' => $password],
        'update_status_module' => [], 'clean_url' => false, 'date_default_timezone' => 'UTC',
        'site_default_country' => '',
    ]],
]);
module_enable(['pages']);
variable_set('cron_safe_threshold', 0);
