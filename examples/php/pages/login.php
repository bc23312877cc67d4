<h1>Log in</h1>
<p class="lead">Any name will do; there is no password. Your session gets a new id, and the old one
  is worth nothing from then on.</p>
<?= form('/log-in', 'class="card"') ?>
  <label>Name <input name="name" required maxlength="40" autocomplete="username" autofocus></label>
  <button>Log in</button>
</form>
