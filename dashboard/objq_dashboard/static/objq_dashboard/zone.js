// Tells the site in which zone its viewer lives: the pages over HTTP by a cookie, the socket by the
// page's own attribute. A site that has chosen a zone itself is not asked again (objq_dashboard.zones).
"use strict";

(() => {
  const page = document.querySelector("[data-objq-page]");
  if (!page || page.dataset.objqZoneChosen !== undefined) return;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone) return;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `objq_zone=${encodeURIComponent(zone)}; Path=${page.dataset.objqBase}; Max-Age=31536000; SameSite=Lax${secure}`;
  page.dataset.objqZone = zone;
})();
