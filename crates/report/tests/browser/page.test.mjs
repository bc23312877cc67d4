// The report in a real browser: light and dark, narrow and wide, by keyboard, on paper.
//
// REPORT is the page, CHROMIUM the browser; PICTURES, if set, a directory for screenshots.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import axe from 'axe-core';
import { chromium } from 'playwright-core';

const address = pathToFileURL(resolve(process.env.REPORT)).href;
const pictures = process.env.PICTURES;
const quiet = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update',
    '--disable-sync'];
let profile, browser;

before(async () => {
    profile = await mkdtemp(join(tmpdir(), 'sessile-report-'));
    browser = await chromium.launchPersistentContext(profile, { executablePath: process.env.CHROMIUM, headless: true, args: quiet });
    // Not by a script element: the page's policy would not let it in.
    await browser.addInitScript({ content: axe.source });
});

after(async () => {
    await browser?.close();
    await rm(profile, { recursive: true, force: true });
});

async function open(width = 1280, colorScheme = 'light') {
    const page = await browser.newPage();
    const heard = { requests: [], complaints: [] };
    page.on('request', request => heard.requests.push(request.url()));
    page.on('console', message => ['error', 'warning'].includes(message.type()) && heard.complaints.push(message.text()));
    page.on('pageerror', error => heard.complaints.push(String(error)));
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.goto(address);
    return { page, heard };
}

test('the page asks for nothing and complains about nothing', async () => {
    const { page, heard } = await open();
    await page.waitForLoadState('networkidle');
    assert.deepEqual(heard.requests, [address]);
    assert.deepEqual(heard.complaints, []);
    assert.equal(await page.locator('script, link, img, iframe, object, embed').count(), 0);
    await page.close();
});

test('the policy lets in neither a script nor a style of somebody else', async () => {
    const { page } = await open();
    const done = await page.evaluate(() => {
        const script = document.createElement('script');
        script.textContent = 'globalThis.wasRun = true';
        const style = document.createElement('style');
        style.textContent = 'h1 { color: rgb(1, 2, 3) !important }';
        document.body.append(script, style);
        return [globalThis.wasRun ?? false, getComputedStyle(document.querySelector('h1')).color];
    });
    assert.equal(done[0], false);
    assert.notEqual(done[1], 'rgb(1, 2, 3)');
    await page.close();
});

for (const theme of ['light', 'dark']) {
    for (const width of [360, 1600]) {
        test(`${theme}, ${width} pixels wide: whole, legible and accessible`, async () => {
            const { page } = await open(width, theme);
            assert.deepEqual(await page.evaluate(beyondTheEdge), []);
            const charts = await page.evaluate(chartsInside);
            assert.ok(charts.length > 8, `${charts.length} charts`);
            for (const chart of charts) {
                assert.ok(chart.width > 200 && chart.height > 80 && chart.marks > 2, JSON.stringify(chart));
                assert.ok(chart.smallest >= 9, `text of ${chart.smallest} pixels in ${chart.name}`);
            }
            assert.deepEqual(await page.evaluate(paleText), []);
            // All parts that can be folded are looked at, too.
            await page.evaluate(() => document.querySelectorAll('details').forEach(part => { part.open = true; }));
            assert.deepEqual(await page.evaluate(beyondTheEdge), []);
            const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
            assert.deepEqual(violations.map(it => `${it.id}: ${it.nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(' ')}`), []);
            if (pictures) {
                await page.evaluate(() => document.querySelectorAll('details').forEach(part => { part.open = false; }));
                await page.screenshot({ path: join(pictures, `${theme}-${width}.png`), fullPage: true });
            }
            await page.close();
        });
    }
}

test('one h1, headings in order, one of each landmark, ids once, links that lead somewhere', async () => {
    const { page } = await open();
    const found = await page.evaluate(() => ({
        levels: [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map(heading => Number(heading.tagName[1])),
        landmarks: ['body > header', 'nav[aria-label]', 'main', 'footer'].map(name => document.querySelectorAll(name).length),
        ids: [...document.querySelectorAll('[id]')].map(element => element.id),
        links: [...document.querySelectorAll('a')].map(link => link.getAttribute('href')),
        pointed: [...document.querySelectorAll('[aria-labelledby], [aria-describedby]')]
            .flatMap(element => [element.getAttribute('aria-labelledby'), element.getAttribute('aria-describedby')]).filter(Boolean),
    }));
    assert.deepEqual(found.levels.filter(level => level === 1), [1]);
    found.levels.forEach((level, place) => assert.ok(level <= (found.levels[place - 1] ?? 0) + 1, `heading ${place} is an h${level}`));
    assert.deepEqual(found.landmarks, [1, 1, 1, 1]);
    assert.equal(new Set(found.ids).size, found.ids.length);
    assert.ok(found.links.length > 10);
    for (const target of [...found.links.map(link => link.replace(/^#/, '')), ...found.pointed]) {
        assert.ok(found.ids.includes(target), `nothing is called ${target}`);
    }
    await page.close();
});

test('every table has a caption and scopes, every chart a title, a description and its numbers', async () => {
    const { page } = await open();
    const faults = await page.evaluate(() => {
        const faults = [];
        for (const table of document.querySelectorAll('table')) {
            const unscoped = table.querySelectorAll('th:not([scope])').length;
            if (!table.caption?.textContent.trim() || unscoped > 0 || !table.tHead) faults.push(table.outerHTML.slice(0, 200));
        }
        for (const chart of document.querySelectorAll('svg')) {
            const named = chart.getAttribute('role') === 'img' && chart.querySelector('title')?.textContent && chart.querySelector('desc')?.textContent;
            if (!named || !(chart.closest('section') ?? document).querySelector('table')) faults.push(chart.outerHTML.slice(0, 200));
        }
        return faults;
    });
    assert.deepEqual(faults, []);
    await page.close();
});

test('the keyboard goes from the skip link through everything in the order of the page, and one sees where it is', async () => {
    const { page } = await open();
    await page.keyboard.press('Tab');
    const first = await page.evaluate(() => ({ text: document.activeElement.textContent, top: document.activeElement.getBoundingClientRect().top }));
    assert.match(first.text, /skip/i);
    assert.ok(first.top >= 0, 'the skip link stays out of sight');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    await page.goto(address);
    const stops = await page.evaluate(() => document.querySelectorAll('a, summary, [tabindex="0"]').length);
    assert.ok(stops > 30);
    let seen = 0;
    for (let press = 0; press < 60; press += 1) {
        await page.keyboard.press('Tab');
        const state = await page.evaluate(() => {
            const [before, now] = [globalThis.lastStop, document.activeElement];
            globalThis.lastStop = now;
            const after = !before || Boolean(before.compareDocumentPosition(now) & Node.DOCUMENT_POSITION_FOLLOWING);
            return { after, name: now.outerHTML.slice(0, 120), outline: getComputedStyle(now).outlineStyle, body: now === document.body };
        });
        if (state.body) break;
        assert.ok(state.after, `focus jumps back to ${state.name}`);
        assert.notEqual(state.outline, 'none', `no focus is visible on ${state.name}`);
        seen += 1;
    }
    assert.ok(seen > 30, `${seen} stops`);
    await page.close();
});

test('on paper all is there, folded parts too, at its full size, and no chart is torn', async () => {
    const { page } = await open(1280, 'dark');
    const pdf = await page.pdf({ format: 'A4', printBackground: true });
    assert.equal(pdf.subarray(0, 5).toString(), '%PDF-');
    const pages = pdf.toString('latin1').match(/\/Type\s*\/Page\b(?!s)/g)?.length ?? 0;
    assert.ok(pages > 5, `${pages} pages`);
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    await page.setViewportSize({ width: 680, height: 1000 });
    const paper = await page.evaluate(() => ({
        background: getComputedStyle(document.body).backgroundColor,
        torn: [...document.querySelectorAll('figure svg')].filter(chart => getComputedStyle(chart).breakInside !== 'avoid' || chart.getBoundingClientRect().height > 900).length,
        folded: [...document.querySelectorAll('details table')].filter(table => table.getBoundingClientRect().height === 0).length,
        nav: getComputedStyle(document.querySelector('nav')).display,
        // Of what is wider than the paper a browser makes the whole page smaller.
        wide: [...document.querySelectorAll('body *')].filter(it => it.getBoundingClientRect().right > 681).map(it => it.outerHTML.slice(0, 80)),
    }));
    assert.deepEqual(paper, { background: 'rgb(255, 255, 255)', torn: 0, folded: 0, nav: 'none', wide: [] });
    await page.close();
});

// What runs in the page.

/** Elements that make the page itself scroll sideways. */
function beyondTheEdge() {
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= room) return [];
    const wide = [...document.querySelectorAll('body *')].filter(it => !it.closest('.scroll') && it.getBoundingClientRect().right > room + 1);
    return [`${document.documentElement.scrollWidth} of ${room}`, ...wide.slice(0, 5).map(it => it.outerHTML.slice(0, 160))];
}

function chartsInside() {
    return [...document.querySelectorAll('main svg')].filter(chart => chart.checkVisibility()).map(chart => {
        const { width, height } = chart.getBoundingClientRect();
        const scale = width / chart.viewBox.baseVal.width;
        const sizes = [...chart.querySelectorAll('text')].map(text => Number.parseFloat(getComputedStyle(text).fontSize) * scale);
        const marks = chart.querySelectorAll('rect, circle, polyline, polygon, line').length;
        return { name: chart.querySelector('title').textContent, width, height, marks, smallest: Math.min(...sizes) };
    });
}

/** Words of charts below a contrast of 4.5, and marks below 3, against the page; axe looks at the other words. */
function paleText() {
    const light = color => {
        const parts = color.match(/[\d.]+/g).slice(0, 3).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const paper = light(getComputedStyle(document.body).backgroundColor);
    const contrast = color => (Math.max(light(color), paper) + 0.05) / (Math.min(light(color), paper) + 0.05);
    const pale = new Set();
    for (const part of document.querySelectorAll('main svg :is(text, rect, circle, polygon)')) {
        const { fill } = getComputedStyle(part);
        if (fill === 'none' || !fill.startsWith('rgb')) continue;
        const least = part.tagName === 'text' ? 4.5 : 3;
        if (contrast(fill) < least) pale.add(`${part.tagName} ${fill} ${contrast(fill).toFixed(2)}`);
    }
    return [...pale];
}
