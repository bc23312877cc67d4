<?php
$times = measure();
$us = fn (float $part) => number_format($times[(int) ((count($times) - 1) * $part)], 1);
$at = fn (float $part) => $times ? $us($part) . ' &micro;s' : 'the store does not answer';
$store = strtok((string) ini_get('session.save_path'), ':');
?>
<h1>Behind the counter</h1>
<p class="lead">The sessions of this shop are kept by <code>sessile</code>, on the store
  <code><?= escaped($store) ?></code>.</p>

<section class="card">
  <h2>A session begins when there is something to keep</h2>
<?php if (empty($_SESSION)): ?>
  <p>This page called <code>session_start()</code>, and yet you have no session and no cookie:
    nothing was put into it. Add something to your cart, and look again.</p>
<?php else: ?>
  <p>You have a session, because there is something in it:
    <code><?= escaped(implode(', ', array_keys($_SESSION))) ?></code>.
    Open this page in a private window to see what a new visitor gets: no session and no cookie.</p>
<?php endif ?>
</section>

<section class="card">
  <h2>Eight at once, and none is lost</h2>
  <p>Each request reads your counter, works for 20 ms, and stores the counter plus one.
    A session belongs to one request at a time, so all eight count; without a lock most would have
    stored the same number.</p>
  <?= form('/count', 'id="count"') ?><button>Count 8 times at once</button>
    Your counter: <b id="counter"><?= escaped($_SESSION['count'] ?? 0) ?></b></form>
  <p id="outcome" role="status"></p>
  <script src="/count.js"></script>
</section>

<section class="card">
  <h2>What it costs</h2>
  <p><?= count($times) ?> times in this request: <code>session_start()</code>, one change of a
    session of 1,400 bytes, <code>session_write_close()</code>.</p>
  <dl>
    <dt>Median</dt><dd><?= $at(0.5) ?></dd>
    <dt>99 of 100 are faster than</dt><dd><?= $at(0.99) ?></dd>
  </dl>
</section>

<section class="card">
  <h2>What could not be saved or locked</h2>
  <p><code>sessile_counters()</code> of worker <?= getmypid() ?>. In a shop that is well all are
    0.</p>
  <dl>
<?php foreach (sessile_counters() as $name => $value): ?>
    <dt><code><?= escaped($name) ?></code></dt><dd><?= escaped($value) ?></dd>
<?php endforeach ?>
  </dl>
</section>
