<?php
// Not run against Drupal: bindings/php/integrations/test/drupal.php has stand-ins for it.

namespace Drupal\sessile;

use Drupal\Component\Datetime\TimeInterface;
use Drupal\Component\Utility\Crypt;
use Drupal\Core\Database\Connection;

/**
 * Drupal's session storage, over the native handler of session.save_handler.
 *
 * Drupal ends the sessions of a user (a new password, a blocked account) by removing their rows of the sessions table. So
 * a session that is logged in has a row there, without its data; the session whose row is gone is empty from then on. A row is
 * made when an id is first saved with its user, and never again: a request that was under way brings no row back.
 */
class SessionHandler extends \SessionHandler {

  /** What stands in the row in place of the data, and before the data of a session that has a row. */
  private const ROW = 'sessile;';
  private const WITHOUT_ROW = ';';

  /** For how long the time of a row may be behind, in seconds. */
  private const ROW_AGE = 180;

  /** The session of which this request has seen the row. */
  private ?string $known = NULL;

  private string|false $module;

  public function __construct(
    private \SessionHandlerInterface $rows,
    private Connection $connection,
    private TimeInterface $time,
  ) {
    // Before Symfony puts this handler in front of it; a rebuilt container finds that done.
    $this->module = session_module_name();
    // PHP would go on with the native module alone, and no row would ever be looked at.
    if (!(ini_get_all('session')['session.save_handler']['access'] & INI_USER)) {
      throw new \RuntimeException('the module sessile needs session.save_handler set by php_value, not by php_admin_value');
    }
  }

  public function open(string $path, string $name): bool {
    if (!in_array($this->module, ['sessile', 'user'], TRUE)) {
      throw new \RuntimeException('the module sessile needs session.save_handler = sessile in php.ini');
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

  /** Keeps the row from being collected; one that is gone stays gone. */
  private function refresh(string $id): void {
    $now = $this->time->getRequestTime();
    $this->connection->update('sessions')
      ->fields(['timestamp' => $now])
      ->condition('sid', Crypt::hashBase64($id))
      ->condition('timestamp', $now - self::ROW_AGE, '<')
      ->execute();
  }

}
