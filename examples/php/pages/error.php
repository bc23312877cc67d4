<h1><?= escaped($status) ?></h1>
<p class="lead"><?= escaped($message) ?></p>
<p><a href="/">Back to the shop</a></p>
