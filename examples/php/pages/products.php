<h1>Things that stay where you put them</h1>
<p class="lead">Heavy goods for people who have lost enough already. So are their carts.</p>
<ul class="products">
<?php foreach (PRODUCTS as $product => [$name, $text, $cents]): ?>
  <li>
    <?= picture($product) ?>
    <h2><?= escaped($name) ?></h2>
    <p><?= escaped($text) ?></p>
    <?= form('/add', 'class="buy"') ?>
      <b><?= euros($cents) ?></b>
      <button name="product" value="<?= escaped($product) ?>">Add to cart</button>
    </form>
  </li>
<?php endforeach ?>
</ul>
