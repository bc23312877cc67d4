<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Staying Put</title>
<link rel="icon" href="/pictures.svg">
<link rel="stylesheet" href="/style.css">
<header>
  <a class="brand" href="/">Staying Put</a>
  <nav>
    <a href="/">Shop</a>
    <a href="/cart">Cart<?= cart() ? ' <b class="badge">' . array_sum(cart()) . '</b>' : '' ?></a>
    <a href="/handler">Behind the counter</a>
<?php if (isset($_SESSION['name'])): ?>
    <?= form('/log-out') ?><span>Hello, <?= escaped($_SESSION['name']) ?></span>
      <button class="quiet">Log out</button></form>
<?php else: ?>
    <a href="/login">Log in</a>
<?php endif ?>
  </nav>
</header>
<main>
<?= $content ?>
</main>
<footer>
<?php if ($status === 503): ?>
  <b>Your session is not at hand.</b>
<?php elseif (empty($_SESSION)): ?>
  <b>No session.</b> You have done nothing that must be remembered: no cookie was sent, and nothing
  was stored.
<?php else: ?>
  <b>Session <?= escaped(substr((string) session_id(), 0, 6)) ?>&hellip;</b>
  of <?= strlen(serialize($_SESSION)) ?> bytes, opened in
  <?= number_format($opened_us, 1) ?> &micro;s by worker <?= getmypid() ?>.
<?php endif ?>
</footer>
