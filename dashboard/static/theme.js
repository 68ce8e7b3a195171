// Sets the theme before the page is drawn. Without a choice of the reader it is that of the system.
(() => {
  const chosen = localStorage.getItem("weft-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
