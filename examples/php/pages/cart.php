<h1>Your cart</h1>
<?php if (!cart()): ?>
<p class="lead">It is empty. <a href="/">Find something that lasts.</a></p>
<?php else: $cents_of = fn ($product) => cart()[$product] * PRODUCTS[$product][2]; ?>
<table>
<?php foreach (cart() as $product => $pieces): [$name, , $cents] = PRODUCTS[$product]; ?>
  <tr>
    <td><?= picture($product) ?></td>
    <th scope="row"><?= escaped($name) ?></th>
    <td><?= escaped($pieces) ?> &times; <?= euros($cents) ?></td>
    <td><?= euros($pieces * $cents) ?></td>
    <td><?= form('/remove') ?>
      <button class="quiet" name="product" value="<?= escaped($product) ?>">Remove</button></form>
    </td>
  </tr>
<?php endforeach ?>
  <tr class="total">
    <td></td><th scope="row">Total</th><td></td>
    <td><?= euros(array_sum(array_map($cents_of, array_keys(cart())))) ?></td><td></td>
  </tr>
</table>
<?php if (!isset($_SESSION['name'])): ?>
<p><a href="/login">Log in</a>: the cart comes with you, to a session with a new id.</p>
<?php endif; endif ?>
