#!/bin/sh
# Installs real products below $dir/www, with the database of php_site_servers.sh; php_sites_test.sh
# sources it.
. scripts/php_site_servers.sh

# Installs Drupal 7 with this project's session functions and a module that the checks ask:
# install_drupal ARCHIVE
install_drupal() {
    tar -xf "$1" -C "$dir/www"
    mv "$dir"/www/drupal-7* "$dir/www/drupal"
    all=$dir/www/drupal/sites/all
    mkdir -p "$all/libraries/sessile"
    cp bindings/php/integrations/drupal7/*.inc "$all/libraries/sessile/"
    cp -R bindings/php/integrations/products/pages "$all/modules/"
    query -e 'CREATE DATABASE drupal'
    write_settings >"$dir/install.ini"
    PHP_INI_SCAN_DIR='' "$php" -c "$dir/install.ini" \
        bindings/php/integrations/products/install_drupal7.php "$dir/www/drupal" \
        "$dir/database/socket"
}

# Makes unpacked packages work where they are: relocate ROOT
#
# Debian's scripts name their files by absolute paths. What the machine has installed already is
# linked.
relocate() {
    find "$1" -type l -lname '/*' | while read -r link; do
        ln -sfn "$1$(readlink "$link")" "$link"
    done
    for name in php javascript; do
        mkdir -p "$1/usr/share/$name"
        [ ! -d "/usr/share/$name" ] || cp -rsn "/usr/share/$name/." "$1/usr/share/$name/"
    done
    grep -rlE "['\"]/(usr/share|etc|var/lib)/" --include='*.php' "$1/usr/share" "$1/etc" |
        xargs sed -i -E "s#(['\"])/(usr/share|etc|var/lib)/#\\1$1/\\2/#g"
}

# The user of phpMyAdmin and Adminer is shop, with the password secret.
install_database_tools() {
    query -e "CREATE DATABASE shop; CREATE TABLE shop.book (title VARCHAR(80) PRIMARY KEY);
        CREATE USER shop@localhost IDENTIFIED BY 'secret'; GRANT ALL ON shop.* TO shop@localhost"
    ln -s "$dir/root/usr/share/phpmyadmin" "$dir/www/phpmyadmin"
    mkdir -p "$dir/root/etc/phpmyadmin/conf.d" "$dir/www/adminer"
    cat >"$dir/root/etc/phpmyadmin/conf.d/site.php" <<END
<?php
\$cfg['blowfish_secret'] = '0123456789abcdef0123456789abcdef';
\$cfg['Servers'][1] = ['host' => 'localhost', 'socket' => '$dir/database/socket',
    'auth_type' => 'cookie'];
END
    echo "<?php chdir('$dir/root/etc/adminer'); require '$dir/root/etc/adminer/conf.php';" \
        >"$dir/www/adminer/index.php"
}

# The user is anna, with the password secret.
install_dokuwiki() {
    ln -s "$dir/root/usr/share/dokuwiki" "$dir/www/dokuwiki"
    cat >"$dir/root/etc/dokuwiki/local.php" <<'END'
<?php
$conf['useacl'] = 1;
$conf['superuser'] = '@admin';
END
    printf '*\t@ALL\t1\n*\t@user\t8\n' >"$dir/root/etc/dokuwiki/acl.auth.php"
    hash=$("$php" -n -r 'echo password_hash("secret", PASSWORD_BCRYPT);')
    echo "anna:$hash:Anna:anna@example.com:admin,user" >"$dir/root/etc/dokuwiki/users.auth.php"
}

# The user is anna, with the password secret and an empty inbox.
install_roundcube() {
    mail_port=$(free_port "$php" 18580)
    "$php" -n bindings/php/integrations/products/imap_server.php "$mail_port" &
    processes="$! $processes"
    ln -s "$dir/root/var/lib/roundcube/public_html" "$dir/www/roundcube"
    query -e 'CREATE DATABASE roundcube'
    query roundcube <"$dir/root/usr/share/roundcube/SQL/mysql.initial.sql"
    cat >"$dir/root/etc/roundcube/config.inc.php" <<END
<?php
\$config['db_dsnw'] = 'mysql://root:@unix($dir/database/socket)/roundcube';
\$config['imap_host'] = '127.0.0.1:$mail_port';
\$config['des_key'] = '0123456789abcdef01234567';
\$config['session_storage'] = 'php';
\$config['plugins'] = [];
END
}
