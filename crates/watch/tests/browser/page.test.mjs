// The page of `sessile serve` in a real browser: light and dark, narrow and wide, by keyboard, with
// hostile texts.
//
// PAGE is its address, CHROMIUM the browser; PICTURES, if set, a directory for screenshots.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import axe from 'axe-core';
import { chromium } from 'playwright-core';

const address = process.env.PAGE;
const pictures = process.env.PICTURES;
const quiet = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update',
    '--disable-sync'];
let profile, browser;

before(async () => {
    profile = await mkdtemp(join(tmpdir(), 'sessile-serve-'));
    browser = await chromium.launchPersistentContext(profile, { executablePath: process.env.CHROMIUM, headless: true, args: quiet });
    // Not by a script element: the page's policy would not let it in.
    await browser.addInitScript({ content: axe.source });
});

after(async () => {
    await browser?.close();
    await rm(profile, { recursive: true, force: true });
});

async function open(name = '', width = 1280, colorScheme = 'light') {
    const page = await browser.newPage();
    const heard = { requests: [], complaints: [], dialogs: 0 };
    page.on('request', request => heard.requests.push(request.url()));
    page.on('console', message => ['error', 'warning'].includes(message.type()) && heard.complaints.push(message.text()));
    page.on('pageerror', error => heard.complaints.push(String(error)));
    page.on('dialog', dialog => { heard.dialogs += 1; return dialog.dismiss(); });
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.goto(address + name);
    return { page, heard };
}

// The browser looks for an icon by itself.
const own = requests => requests.filter(url => !url.endsWith('/favicon.ico'));

for (const name of ['?still', 'locks', 'check', 'doctor']) {
    test(`${name} asks for nothing else, complains about nothing and has no script`, async () => {
        const { page, heard } = await open(name);
        await page.waitForLoadState('networkidle');
        assert.deepEqual(own(heard.requests), [address + name]);
        assert.deepEqual(heard.complaints, []);
        assert.equal(await page.locator('script, link, img, iframe, object, embed').count(), 0);
        await page.close();
    });
}

for (const theme of ['light', 'dark']) {
    for (const width of [360, 1600]) {
        test(`${theme}, ${width} pixels wide: nothing beyond the edge, accessible`, async () => {
            for (const name of ['?still', 'locks', 'doctor']) {
                const { page } = await open(name, width, theme);
                const edge = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
                assert.ok(edge <= 0, `${name}: ${edge} pixels beyond the edge`);
                const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
                assert.equal(paper === 'rgb(255, 255, 255)', theme === 'light', paper);
                const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
                assert.deepEqual(violations.map(it => `${name} ${it.id}: ${it.nodes[0].html.slice(0, 200)}`), []);
                if (pictures) {
                    await page.screenshot({ path: join(pictures, `${theme}-${width}-${name.replace('?', '')}.png`), fullPage: true });
                }
                await page.close();
            }
        });
    }
}

test('the charts are inside of their boxes and have a name', async () => {
    const { page } = await open('?still');
    const charts = await page.locator('svg').evaluateAll(all => all.map(it => ({
        width: it.getBoundingClientRect().width, name: it.getAttribute('aria-label'),
    })));
    assert.ok(charts.length >= 6, `${charts.length} charts`);
    for (const chart of charts) assert.ok(chart.width > 200 && chart.name.includes('in the last hour'), JSON.stringify(chart));
    await page.close();
});

test('every page can be reached by keyboard, and the focus is seen', async () => {
    const { page } = await open('?still');
    const names = [];
    for (let step = 0; step < 5; step += 1) {
        await page.keyboard.press('Tab');
        names.push(await page.evaluate(() => document.activeElement.textContent));
        const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
        assert.notEqual(outline, 'none');
    }
    assert.deepEqual(names, ['Overview', 'Overview, standing still', 'Locks', 'Check', 'Doctor']);
    await page.keyboard.press('Enter');
    await page.waitForURL('**/doctor');
    assert.equal(await page.locator('h2').first().textContent(), 'Doctor');
    await page.close();
});

test('a hostile name is text and does nothing', async () => {
    const { page, heard } = await open('doctor');
    const text = await page.locator('main').textContent();
    assert.ok(text.includes('<img src=x onerror=alert(1)>'), text);
    assert.equal(heard.dialogs, 0);
    await page.close();
});

test('the overview draws itself anew', async () => {
    const { page, heard } = await open('');
    const start = Date.now();
    while (own(heard.requests).length < 2 && Date.now() - start < 30000) await new Promise(done => setTimeout(done, 100));
    assert.ok(own(heard.requests).length >= 2);
    assert.deepEqual(heard.complaints, []);
    await page.close();
});
