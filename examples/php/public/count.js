// Sends eight requests at once that count on one session, and tells whether one was lost.
const form = document.getElementById('count');
const add = async () => {
  const options = { method: 'POST', body: new FormData(form), headers: { Accept: 'application/json' } };
  const answer = await fetch(form.action, options);
  if (!answer.ok) throw new Error(`the shop answers ${answer.status}`);
  return answer.json();
};
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const outcome = document.getElementById('outcome');
  try {
    // One goes ahead: a visitor without a session gets it here, with the token for the others.
    const first = await add();
    form.elements.token.value = first.token;
    const start = performance.now();
    const answers = await Promise.all(Array.from({ length: 8 }, add));
    const ms = Math.round(performance.now() - start);
    const last = Math.max(...answers.map((answer) => answer.count));
    const workers = new Set(answers.map((answer) => answer.worker)).size;
    document.getElementById('counter').textContent = last;
    outcome.textContent = `One to begin with: ${first.count}. Then 8 at once, by ${workers} workers in ${ms} ms: ${last}. `
      + `Lost: ${first.count + 8 - last}.`;
  } catch (error) {
    outcome.textContent = `That did not work: ${error.message}. Please reload the page.`;
  }
});
