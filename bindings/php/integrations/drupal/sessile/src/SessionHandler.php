<?php
// Tested with stand-ins for Drupal (bindings/php/integrations/test/drupal.php), not with Drupal.

namespace Drupal\sessile;

use Drupal\Component\Datetime\TimeInterface;
use Drupal\Component\Utility\Crypt;
use Drupal\Core\Database\Connection;

/**
 * Drupal's session storage, over the native handler of session.save_handler.
 *
 * Drupal ends the sessions of a user (new password, blocked account) by deleting their rows of the
 * table sessions. So each logged-in session has a row there, without its data; a session whose row
 * is gone reads as empty. A row is inserted only when an id is first saved with its user, so that a
 * concurrent request cannot bring a deleted row back.
 */
class SessionHandler extends \SessionHandler {

  /** The data of a row, and the prefix of the payload of a session that has one. */
  private const ROW = 'sessile;';
  private const WITHOUT_ROW = ';';

  /** The largest age of a row's timestamp before it is updated, in seconds. */
  private const ROW_AGE = 180;

  /** The session whose row this request has seen. */
  private ?string $known = NULL;

  private string|false $module;

  public function __construct(
    private \SessionHandlerInterface $rows,
    private Connection $connection,
    private TimeInterface $time,
  ) {
    // Before Symfony puts this handler in front of it. After a rebuild of the container it is
    // "user".
    $this->module = session_module_name();
    // PHP would use the native module alone and never check a row.
    if (!(ini_get_all('session')['session.save_handler']['access'] & INI_USER)) {
      throw new \RuntimeException(
        'the module sessile needs session.save_handler set by php_value, not by php_admin_value');
    }
  }

  public function open(string $path, string $name): bool {
    if (!extension_loaded('sessile')) {
      throw new \RuntimeException(
        'the PHP extension sessile is not loaded; add extension = sessile to php.ini');
    }
    if (!in_array($this->module, ['sessile', 'user'], TRUE)) {
      throw new \RuntimeException(
        'the module sessile needs session.save_handler = sessile in php.ini');
    }
    return parent::open($path, $name);
  }

  public function read(string $id): string|false {
    $this->known = NULL;
    $data = parent::read($id);
    if ($data === FALSE || $data === '') {
      return $data;
    }
    if (!str_starts_with($data, self::ROW)) {
      return substr($data, strlen(self::WITHOUT_ROW));
    }
    if ($this->rows->read($id) !== self::ROW) {
      return '';
    }
    $this->known = $id;
    return substr($data, strlen(self::ROW));
  }

  public function write(string $id, string $data): bool {
    $logged_in = !empty($_SESSION['_sf2_attributes']['uid']);
    if ($logged_in && $this->known !== $id) {
      $this->rows->write($id, self::ROW);
      $this->known = $id;
    }
    elseif ($logged_in) {
      $this->refresh($id);
    }
    if ($logged_in) {
      // The user. memcached and PHP's own files keep no owners.
      @sessile_set_owner((string) $_SESSION['_sf2_attributes']['uid']);
    }
    return parent::write($id, ($logged_in ? self::ROW : self::WITHOUT_ROW) . $data);
  }

  public function destroy(string $id): bool {
    $this->rows->destroy($id);
    return parent::destroy($id);
  }

  public function gc(int $max_lifetime): int|false {
    $this->rows->gc($max_lifetime);
    return parent::gc($max_lifetime);
  }

  /** Keeps the row from being collected. An update does not restore a deleted row. */
  private function refresh(string $id): void {
    $now = $this->time->getRequestTime();
    $this->connection->update('sessions')
      ->fields(['timestamp' => $now])
      ->condition('sid', Crypt::hashBase64($id))
      ->condition('timestamp', $now - self::ROW_AGE, '<')
      ->execute();
  }

}
