<?php
// Installs Drupal 7 with its standard profile into the private database: says "installed".

require __DIR__ . '/site.php';
set_time_limit(0);
const MAINTENANCE_MODE = 'install';
require 'includes/install.core.inc';

$database = ['driver' => 'mysql', 'database' => 'test', 'username' => 'root', 'password' => '',
    'host' => 'localhost', 'unix_socket' => get_cfg_var('contender.socket'), 'prefix' => ''];
@mkdir('sites/default');
file_put_contents('sites/default/settings.php', "<?php\n"
    . "\$databases['default']['default'] = " . var_export($database, true) . ";\n"
    . "\$drupal_hash_salt = '" . bin2hex(random_bytes(16)) . "';\n"
    . "ini_set('session.gc_maxlifetime', 200000);\n"
    . "if (ini_get('session.save_handler') === 'sessile' && !defined('MAINTENANCE_MODE')) {\n"
    . "  \$conf['session_inc'] = 'sites/all/libraries/sessile/sessile.inc';\n}\n");
@mkdir('sites/default/files');
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
// Not within a page that is measured.
variable_set('cron_safe_threshold', 0);
echo "installed\n";
